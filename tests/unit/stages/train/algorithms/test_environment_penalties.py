"""Algorithms that compare environments have the properties that define them."""

import pytest
import torch

from gsx.stages.nn.losses import label_entropy, row_loss
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.coral import Coral, covariance, covariance_distance
from gsx.stages.train.algorithms.dann import DANN
from gsx.stages.train.algorithms.erm import ERM
from gsx.stages.train.algorithms.groupdro import GroupDRO
from gsx.stages.train.algorithms.irm import IRM, irmv1_penalty
from gsx.stages.train.algorithms.training_step import ModelOutput, TrainingStep, label_counts
from gsx.stages.train.algorithms.vrex import VREx
from gsx.stages.train.gradient_reversal import reverse_gradient
from tests.support.algorithms import create_algorithm, number


def make_step(
    losses, env, features=None, logits=None, y=None, task="binary", progress=1.0, weights=None
):
    """Return a step with given losses, features and logits instead of a network."""
    count = len(env)
    step = TrainingStep(
        model=None,
        batch=None,
        rows=torch.arange(count),
        env=torch.tensor(env),
        y=torch.zeros(count, 1) if y is None else y,
        task=task,
        stream=None,
        progress=progress,
        weights=None if weights is None else torch.tensor(weights),
    )
    output = ModelOutput(
        torch.zeros(count, 2) if features is None else features,
        torch.zeros(count, 1) if logits is None else logits,
    )
    vars(step).update(output=output, losses=torch.tensor(losses))
    return step


def test_erm_is_the_mean_loss():
    erm = create_algorithm(ERM)
    assert float(erm(make_step([1.0, 2.0, 6.0], [0, 0, 1]))) == pytest.approx(3.0)


def test_vrex_adds_the_unbiased_variance_of_the_environment_means():
    # Means are 2, 4 and 9: their unbiased variance is 13.
    step = make_step([1.0, 3.0, 4.0, 9.0], [0, 0, 1, 2])
    assert float(create_algorithm(VREx, penalty=10.0)(step)) == pytest.approx(4.25 + 130)


def test_vrex_with_one_environment_is_the_mean_loss():
    vrex = create_algorithm(VREx, penalty=10.0)
    assert float(vrex(make_step([1.0, 3.0], [2, 2]))) == pytest.approx(2.0)


SOFT_LABELS = {
    "classification": ([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    "binary": [[0.3], [0.5], [1.0], [0.0]],
    "multitask": [[0.3, float("nan")], [0.5, 0.1], [1.0, 0.0], [float("nan"), 1.0]],
}


def step_of(y, logits, task):
    y, logits = torch.tensor(y), torch.tensor(logits, requires_grad=True)
    losses = row_loss(logits, y, task)
    step = make_step([0.0] * len(y), [0, 0, 1, 1], logits=logits, y=y, task=task)
    vars(step).update(losses=losses)
    return step, logits


def optimal_logits(y, task):
    """Return the logits whose predictions are the labels, up to 1e-6."""
    y = torch.nan_to_num(torch.tensor(y), 0.5).clamp(1e-6, 1 - 1e-6)
    return (y.log() if task == "classification" else y.logit()).tolist()


@pytest.mark.parametrize("task", SOFT_LABELS)
@pytest.mark.parametrize("algorithm", [VREx, GroupDRO])
def test_environments_are_equal_where_all_predictions_are_the_labels(algorithm, task):
    """Losses differ there: the first environment has soft labels, the second hard ones."""
    y = SOFT_LABELS[task]
    step, logits = step_of(y, optimal_logits(y, task), task)
    means = step.environment_means(step.losses)
    assert number(means[0] - means[1]) > 0.3
    trained = create_algorithm(algorithm, num_envs=2, penalty=100.0)
    loss = trained(step)
    loss.backward()
    assert logits.grad.abs().max() < 1e-4
    if algorithm is VREx:
        assert number(loss) == pytest.approx(number(step.losses.mean()), abs=1e-4)
    else:
        assert trained.weights.tolist() == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("task", [*SOFT_LABELS, "regression"])
@pytest.mark.parametrize("algorithm", [VREx, GroupDRO])
def test_hard_labels_give_the_bits_of_the_losses(monkeypatch, algorithm, task):
    random = torch_stream(3, task)
    if task == "classification":
        y = torch.eye(3)[[0, 1, 2, 1]]
    elif task == "regression":
        y = torch.randn(4, 2, generator=random)
    else:
        y = torch.tensor([[1.0, 0.0], [0.0, float("nan")], [1.0, 1.0], [0.0, 0.0]])
    logits = torch.randn(y.shape, generator=random).tolist()

    def outcome(*, compares_losses):
        step, inputs = step_of(y.tolist(), logits, task)
        if compares_losses:
            vars(step)["divergences"] = step.losses
        loss = create_algorithm(algorithm, num_envs=2, penalty=10.0)(step)
        loss.backward()
        return loss.detach(), inputs.grad

    for one, other in zip(
        outcome(compares_losses=False), outcome(compares_losses=True), strict=True
    ):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    assert (label_entropy(y, task) == 0).all()


def test_irm_penalty_is_zero_where_one_scale_is_optimal_everywhere():
    # Three of four labels are positive: logit log 3 is optimal, so scaling cannot improve it.
    y = torch.tensor([[1.0], [1.0], [1.0], [0.0]] * 2)
    env = [0, 0, 0, 0, 1, 1, 1, 1]
    optimal = torch.full((8, 1), 3.0).log()
    step = make_step([0.0] * 8, env, logits=optimal, y=y)
    assert number(irmv1_penalty(step)) == pytest.approx(0, abs=1e-9)
    assert number(irmv1_penalty(make_step([0.0] * 8, env, logits=3 * optimal, y=y))) > 0.1


def test_irm_adds_the_squared_gradient_of_the_scale():
    # For one graph with logit 2 and a positive label, the gradient at 1 is 2 (sigmoid(2) - 1).
    logits, y = torch.tensor([[2.0]]), torch.tensor([[1.0]])
    loss = row_loss(logits, y, "binary")
    step = make_step(loss.tolist(), [0], logits=logits, y=y)
    gradient = 2 * (0.880797 - 1)
    irm = create_algorithm(IRM, penalty=5.0)
    assert number(irm(step)) == pytest.approx(0.126928 + 5 * gradient**2, abs=1e-5)


def test_irm_penalty_is_the_mean_over_environments():
    # Gradients at scale 1: 2 (sigmoid(2) - 1) = -0.238406 for the positive label, and
    # 1 (sigmoid(1) - 0) = 0.731059 for the negative one. Squares: 0.056837 and 0.534447.
    logits, y = torch.tensor([[2.0], [1.0]]), torch.tensor([[1.0], [0.0]])
    step = make_step([0.0, 0.0], [0, 1], logits=logits, y=y)
    assert number(irmv1_penalty(step)) == pytest.approx(0.295642, abs=1e-5)


def test_irm_scales_the_logits_of_all_classes():
    # softmax(1, 0) = (0.731059, 0.268941); the gradient of -log p0 is p0 - 1 = -0.268941.
    logits, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    step = make_step([0.0], [0], logits=logits, y=y, task="classification")
    assert number(irmv1_penalty(step)) == pytest.approx(0.268941**2, abs=1e-6)


def test_groupdro_shifts_weight_to_the_worst_environment():
    groupdro = create_algorithm(GroupDRO, penalty=0.5, num_envs=3)
    for _ in range(20):
        loss = groupdro(make_step([1.0, 2.0, 5.0], [0, 1, 2]))
    assert groupdro.weights.argmax() == 2
    assert float(groupdro.weights.sum()) == pytest.approx(1)
    assert float(loss) == pytest.approx(5.0, abs=1e-3)


def test_groupdro_keeps_the_ratio_of_absent_environments():
    groupdro = create_algorithm(GroupDRO, penalty=1.0, num_envs=3)
    groupdro(make_step([4.0], [0]))
    assert float(groupdro.weights[1]) == float(groupdro.weights[2])


def test_groupdro_multiplies_weights_by_exponentials_across_batches():
    # exp(0.5 * 1) : exp(0.5 * 3) = 1 : e, so 0.268941 and 0.731059; the loss is 2.462117.
    groupdro = create_algorithm(GroupDRO, penalty=0.5, num_envs=2)
    step = make_step([1.0, 3.0], [0, 1])
    assert float(groupdro(step)) == pytest.approx(0.268941 + 3 * 0.731059, abs=1e-5)
    # Again: 1 : e squared, so 0.119203 and 0.880797.
    assert float(groupdro(step)) == pytest.approx(0.119203 + 3 * 0.880797, abs=1e-5)
    assert groupdro.weights.tolist() == pytest.approx([0.119203, 0.880797], abs=1e-5)


def test_groupdro_recovers_an_environment_whose_weight_vanished():
    groupdro = create_algorithm(GroupDRO, penalty=100.0, num_envs=2)
    for _ in range(50):
        groupdro(make_step([0.0, 50.0], [0, 1]))
    assert float(groupdro.weights[0]) < 1e-20
    for _ in range(3):
        groupdro(make_step([50.0, 0.0], [0, 1]))
    assert float(groupdro.weights[0]) == pytest.approx(1.0)


def test_coral_is_zero_where_environments_have_equal_covariances():
    rows = torch.randn(6, 3, generator=torch_stream(0, "rows"))
    env = torch.tensor([0] * 6 + [1] * 6)
    distance = covariance_distance(torch.cat([rows, rows + 5]), env)
    assert float(distance) == pytest.approx(0, abs=1e-9)


def test_coral_is_a_quarter_of_the_mean_squared_difference_of_covariances():
    one = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [0.0, 4.0]])
    assert covariance(one).tolist() == [[2.0, 0.0], [0.0, 0.0]]
    step = make_step([1.0] * 4, [0, 0, 1, 1], features=torch.cat([one, other]))
    coral = create_algorithm(Coral, penalty=1.0)
    assert float(coral(step)) == pytest.approx(1 + (2**2 + 8**2) / 4 / 4)


def test_coral_is_the_mean_over_pairs_of_environments():
    # Variances 2, 8 and 0: squared differences 36, 4 and 64, with mean 104 / 3, over 4.
    features = torch.tensor([[0.0], [2.0], [0.0], [4.0], [3.0], [3.0]])
    env = torch.tensor([0, 0, 1, 1, 2, 2])
    assert float(covariance_distance(features, env)) == pytest.approx(104 / 3 / 4)


def test_coral_ignores_environments_with_one_graph():
    assert float(covariance_distance(torch.randn(3, 2), torch.tensor([0, 0, 1]))) == 0.0


def test_gradient_reversal_negates_and_scales_gradients():
    rows = torch.ones(2, 2, requires_grad=True)
    (2 * reverse_gradient(rows, 0.5)).sum().backward()
    assert rows.grad.tolist() == [[-1.0, -1.0]] * 2


def test_dann_trains_its_classifier_and_reverses_gradients_of_features():
    dann = create_algorithm(DANN, penalty=1.0, num_envs=2, width=2)
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    dann(make_step([0.0, 0.0], [0, 1], features=features)).backward()
    plain = features.detach().clone().requires_grad_()
    logits = dann.environment_classifier(plain)
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    strength = 2 / (1 + torch.tensor(-10.0).exp()) - 1
    assert torch.allclose(features.grad, -strength * plain.grad)
    assert dann.environment_classifier.weight.grad.abs().sum() > 0


def dann_with_fixed_classifier(penalty):
    dann = create_algorithm(DANN, penalty=penalty, num_envs=2, width=1)
    with torch.no_grad():
        dann.environment_classifier.weight.copy_(torch.tensor([[1.0], [0.0]]))
        dann.environment_classifier.bias.zero_()
    return dann


def test_dann_adds_the_loss_of_the_environment_classifier():
    # Logits (1, 0) for environment 0 cost 0.313262, (0, 0) for environment 1 cost 0.693147.
    step = make_step([1.0, 3.0], [0, 1], features=torch.tensor([[1.0], [0.0]]))
    loss = dann_with_fixed_classifier(2.0)(step)
    assert number(loss) == pytest.approx(2.0 + 2 * 0.5032045, abs=1e-5)


@pytest.mark.parametrize(("progress", "strength"), [(0.0, 0.0), (0.1, 0.462117), (1.0, 0.999909)])
def test_dann_reversal_follows_the_published_schedule(progress, strength):
    features = torch.zeros(1, 1, requires_grad=True)
    step = make_step([0.0], [0], features=features, progress=progress)
    dann_with_fixed_classifier(1.0)(step).backward()
    # The gradient of the classifier's loss is softmax(0, 0)[0] - 1 = -0.5.
    assert features.grad.item() == pytest.approx(0.5 * strength, abs=1e-5)


def test_graphs_are_weighted_by_their_number_of_labels():
    # Graph 0 has three labels with loss 1 each, graph 1 has one with loss 5: (3 + 5) / 4.
    step = make_step([1.0, 5.0, 2.0], [0, 0, 1], weights=[3.0, 1.0, 2.0])
    assert float(create_algorithm(ERM)(step)) == pytest.approx((3 + 5 + 4) / 6)
    # Means of environments are 2 and 2: no variance.
    assert float(create_algorithm(VREx, penalty=10.0)(step)) == pytest.approx(2.0)


def test_labels_are_counted_only_where_some_are_missing():
    nan = float("nan")
    assert label_counts(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) is None
    assert label_counts(torch.tensor([[1.0, nan], [0.0, 1.0]])).tolist() == [1.0, 2.0]
