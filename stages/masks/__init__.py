"""FeatX masks: which features the environment explains, and the label does not."""
