"""Each learner has the property that defines it."""

import pytest
import torch

from gsx.stages.nn.losses import row_loss
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.coral import Coral, covariance, distance
from gsx.stages.train.algorithms.dann import DANN, reverse
from gsx.stages.train.algorithms.erm import ERM
from gsx.stages.train.algorithms.groupdro import GroupDRO
from gsx.stages.train.algorithms.irm import IRM, scale_penalty
from gsx.stages.train.algorithms.training_step import Seen, Told, label_counts
from gsx.stages.train.algorithms.vrex import VREx


def told(losses, env, features=None, logits=None, y=None, task="binary", progress=1.0, labels=None):
    count = len(env)
    batch = Told(
        sight=None,
        batch=None,
        rows=torch.arange(count),
        env=torch.tensor(env),
        y=torch.zeros(count, 1) if y is None else y,
        task=task,
        stream=None,
        progress=progress,
        labels=None if labels is None else torch.tensor(labels),
    )
    # What a network would have made of it.
    seen = Seen(
        torch.zeros(count, 2) if features is None else features,
        torch.zeros(count, 1) if logits is None else logits,
    )
    vars(batch).update(seen=seen, losses=torch.tensor(losses))
    return batch


def number(value):
    return value.detach().item()


def test_erm_is_the_mean_loss():
    assert float(ERM()(told([1.0, 2.0, 6.0], [0, 0, 1]))) == pytest.approx(3.0)


def test_vrex_adds_the_unbiased_variance_of_the_means_of_environments():
    # Means are 2, 4 and 9: their unbiased variance is 13.
    batch = told([1.0, 3.0, 4.0, 9.0], [0, 0, 1, 2])
    assert float(VREx(10.0)(batch)) == pytest.approx(4.25 + 130)


def test_vrex_of_one_environment_is_the_mean_loss():
    assert float(VREx(10.0)(told([1.0, 3.0], [2, 2]))) == pytest.approx(2.0)


def test_irm_costs_nothing_where_one_scale_is_best_everywhere():
    # Three of four say yes: logit log 3 is the best there is, so scaling it cannot help.
    y = torch.tensor([[1.0], [1.0], [1.0], [0.0]] * 2)
    env = [0, 0, 0, 0, 1, 1, 1, 1]
    best = torch.full((8, 1), 3.0).log()
    assert number(scale_penalty(told([0.0] * 8, env, logits=best, y=y))) == pytest.approx(
        0, abs=1e-9
    )
    assert number(scale_penalty(told([0.0] * 8, env, logits=3 * best, y=y))) > 0.1


def test_irm_adds_the_squared_slope_of_the_scale():
    # Of one graph with logit 2 and label yes, the slope at scale 1 is 2 (sigmoid(2) - 1).
    logits, y = torch.tensor([[2.0]]), torch.tensor([[1.0]])
    loss = row_loss(logits, y, "binary")
    batch = told(loss.tolist(), [0], logits=logits, y=y)
    slope = 2 * (0.880797 - 1)
    assert number(IRM(5.0)(batch)) == pytest.approx(0.126928 + 5 * slope**2, abs=1e-5)


def test_groupdro_moves_its_weights_to_the_worst_environment():
    learner = GroupDRO(0.5, 3)
    for _ in range(20):
        loss = learner(told([1.0, 2.0, 5.0], [0, 1, 2]))
    assert learner.weights.argmax() == 2
    assert float(learner.weights.sum()) == pytest.approx(1)
    assert float(loss) == pytest.approx(5.0, abs=1e-3)


def test_groupdro_leaves_the_ratio_of_absent_environments_alone():
    learner = GroupDRO(1.0, 3)
    learner(told([4.0], [0]))
    assert float(learner.weights[1]) == float(learner.weights[2])


def test_coral_is_zero_where_environments_have_the_same_features():
    rows = torch.randn(6, 3, generator=torch_stream(0, "rows"))
    env = torch.tensor([0] * 6 + [1] * 6)
    assert float(distance(torch.cat([rows, rows + 5]), env)) == pytest.approx(0, abs=1e-9)


def test_coral_is_the_mean_squared_difference_of_covariances_over_four():
    one = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [0.0, 4.0]])
    assert covariance(one).tolist() == [[2.0, 0.0], [0.0, 0.0]]
    batch = told([1.0] * 4, [0, 0, 1, 1], features=torch.cat([one, other]))
    assert float(Coral(1.0)(batch)) == pytest.approx(1 + (2**2 + 8**2) / 4 / 4)


def test_coral_leaves_out_environments_of_one_graph():
    assert float(distance(torch.randn(3, 2), torch.tensor([0, 0, 1]))) == 0.0


def test_gradients_come_back_from_dann_with_the_other_sign():
    rows = torch.ones(2, 2, requires_grad=True)
    (2 * reverse(rows, 0.5)).sum().backward()
    assert rows.grad.tolist() == [[-1.0, -1.0]] * 2


def test_dann_teaches_its_classifier_and_unteaches_the_features():
    learner = DANN(1.0, 2, 2)
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    learner(told([0.0, 0.0], [0, 1], features=features)).backward()
    plain = features.detach().clone().requires_grad_()
    torch.nn.functional.cross_entropy(learner.tell(plain), torch.tensor([0, 1])).backward()
    strength = 2 / (1 + torch.tensor(-10.0).exp()) - 1
    assert torch.allclose(features.grad, -strength * plain.grad)
    assert learner.tell.weight.grad.abs().sum() > 0


def test_a_graph_counts_by_how_many_labels_it_has():
    # Graph 0 has three labels that cost 1 each, graph 1 has one that costs 5: (3 + 5) / 4.
    batch = told([1.0, 5.0, 2.0], [0, 0, 1], labels=[3.0, 1.0, 2.0])
    assert float(ERM()(batch)) == pytest.approx((3 + 5 + 4) / 6)
    # Means of environments are 2 and 2: no variance.
    assert float(VREx(10.0)(batch)) == pytest.approx(2.0)


def test_labels_are_counted_only_where_some_are_missing():
    nan = float("nan")
    assert label_counts(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) is None
    assert label_counts(torch.tensor([[1.0, nan], [0.0, 1.0]])).tolist() == [1.0, 2.0]


def test_irm_is_the_mean_over_environments():
    # Slopes at scale 1: 2 (sigmoid(2) - 1) = -0.238406 where yes is right, and
    # 1 (sigmoid(1) - 0) = 0.731059 where no is. Squares: 0.056837 and 0.534447.
    logits, y = torch.tensor([[2.0], [1.0]]), torch.tensor([[1.0], [0.0]])
    batch = told([0.0, 0.0], [0, 1], logits=logits, y=y)
    assert number(scale_penalty(batch)) == pytest.approx(0.295642, abs=1e-5)


def test_irm_of_classes_scales_all_logits():
    # softmax(1, 0) = (0.731059, 0.268941); the slope of -log p0 is p0 - 1 = -0.268941.
    logits, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    batch = told([0.0], [0], logits=logits, y=y, task="classification")
    assert number(scale_penalty(batch)) == pytest.approx(0.268941**2, abs=1e-6)


def test_groupdro_multiplies_weights_by_exponents_from_batch_to_batch():
    # exp(0.5 * 1) : exp(0.5 * 3) = 1 : e, so 0.268941 and 0.731059; the loss is 2.462117.
    learner = GroupDRO(0.5, 2)
    batch = told([1.0, 3.0], [0, 1])
    assert float(learner(batch)) == pytest.approx(0.268941 + 3 * 0.731059, abs=1e-5)
    # Again: 1 : e squared, so 0.119203 and 0.880797.
    assert float(learner(batch)) == pytest.approx(0.119203 + 3 * 0.880797, abs=1e-5)
    assert learner.weights.tolist() == pytest.approx([0.119203, 0.880797], abs=1e-5)


def test_groupdro_takes_an_environment_back_that_it_had_given_up():
    learner = GroupDRO(100.0, 2)
    for _ in range(50):
        learner(told([0.0, 50.0], [0, 1]))
    assert float(learner.weights[0]) < 1e-20
    for _ in range(3):
        learner(told([50.0, 0.0], [0, 1]))
    assert float(learner.weights[0]) == pytest.approx(1.0)


def test_coral_is_the_mean_over_pairs_of_environments():
    # Variances 2, 8 and 0: squared differences 36, 4 and 64, in the mean 104 / 3, over 4.
    features = torch.tensor([[0.0], [2.0], [0.0], [4.0], [3.0], [3.0]])
    env = torch.tensor([0, 0, 1, 1, 2, 2])
    assert float(distance(features, env)) == pytest.approx(104 / 3 / 4)


def test_dann_adds_the_loss_of_telling_environments():
    learner = DANN(2.0, 2, 1)
    with torch.no_grad():
        learner.tell.weight.copy_(torch.tensor([[1.0], [0.0]]))
        learner.tell.bias.zero_()
    # Logits (1, 0) for environment 0 cost 0.313262, (0, 0) for environment 1 cost 0.693147.
    batch = told([1.0, 3.0], [0, 1], features=torch.tensor([[1.0], [0.0]]))
    assert number(learner(batch)) == pytest.approx(2.0 + 2 * 0.5032045, abs=1e-5)


@pytest.mark.parametrize(("progress", "strength"), [(0.0, 0.0), (0.1, 0.462117), (1.0, 0.999909)])
def test_the_reversal_of_dann_grows_as_published(progress, strength):
    learner = DANN(1.0, 2, 1)
    with torch.no_grad():
        learner.tell.weight.copy_(torch.tensor([[1.0], [0.0]]))
        learner.tell.bias.zero_()
    features = torch.zeros(1, 1, requires_grad=True)
    batch = told([0.0], [0], features=features, progress=progress)
    learner(batch).backward()
    # The slope of the loss of telling is softmax(0, 0)[0] - 1 = -0.5.
    assert features.grad.item() == pytest.approx(0.5 * strength, abs=1e-5)
