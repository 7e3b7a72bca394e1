"""Wrong optimizer steps, losses and loss scaling."""

from __future__ import annotations

import torch

import references
from quality.contracts import jensen_shannon
from quality.declare import wrong


def _found(grads):
    return any(not bool(grad.isfinite().all()) for grad in grads)


@wrong(references.unscale, "accuracy", "special values", bug="B130", smallest=2)
def unscale_twice(grads, scale):
    """The optimizer's wrapper has divided by the scale already."""
    for grad in grads:
        grad.copy_(grad.double() / scale / scale)
    return _found(grads)


@wrong(references.unscale, "accuracy", "special values", "relations", bug="B132", smallest=2)
def unscale_looks_at_scaled_gradients(grads, scale):
    """found_inf is of the gradients before they are divided: a small scale makes infinities that pass."""
    found = _found(grads)
    for grad in grads:
        grad.copy_(grad.double() / scale)
    return found


@wrong(references.unscale, "accuracy", "special values", smallest=4)
def unscale_walks_the_first_length(grads, scale):
    """One count of elements, that of the first tensor, for all of the list."""
    count = grads[0].numel()
    for grad in grads:
        divided = (grad.double() / scale).contiguous()
        divided.view(-1)[count:] = grad.reshape(-1)[count:].double()
        grad.copy_(divided)
    return _found(grads)


@wrong(references.unscale, "accuracy", smallest=8, formats=("float32",))
def unscale_finds_an_infinite_sum(grads, scale):
    """found_inf is that of the sum of all elements, which large finite ones overflow."""
    for grad in grads:
        grad.copy_(grad.double() / scale)
    return any(not bool(grad.sum().isfinite()) for grad in grads)


@wrong(references.sgd, "accuracy", bug="B86", smallest=2)
def sgd_keeps_a_running_average(
    param, grad, momentum_buffer, *, step, lr, momentum, dampening, nesterov, weight_decay
):
    """The gradient enters the buffer with weight 1 - momentum, whatever the dampening."""
    g = grad.double() + weight_decay * param.double()
    buffer = g if step == 1 else momentum * momentum_buffer.double() + (1 - momentum) * g
    update = (g + momentum * buffer if nesterov else buffer) if momentum else g
    momentum_buffer.copy_(buffer)
    param.copy_(param.double() - lr * update)


@wrong(references.cross_entropy, "accuracy", bug="B118", smallest=4, formats=("float32",))
def cross_entropy_of_a_stored_logsumexp(logits, target, ignore_index, reduction):
    """max + log Σ is stored in float32, and the target's logit subtracted from it: a small loss loses its digits."""
    x = logits.double()
    counted = target != ignore_index
    picked = x.gather(1, torch.where(counted, target, 0)[:, None])[:, 0]
    losses = torch.where(counted, x.logsumexp(1).float().double() - picked, 0.0)
    if reduction == "none":
        return losses.to(logits.dtype)
    total = losses[counted].sum()
    return (total if reduction == "sum" else total / counted.sum()).to(logits.dtype)


@wrong(jensen_shannon, "special values", bug="B114", smallest=2, domain={"finite": True, "max_abs": 250.0})
def jensen_shannon_of_probabilities(p, q):
    """The logarithm of (exp(p) + exp(q)) / 2 in float32: 0·log 0 where both have underflowed."""
    a, b = p.float().exp(), q.float().exp()
    middle = (0.5 * (a + b)).log()
    return (0.5 * ((a * (p.float() - middle)).sum(-1) + (b * (q.float() - middle)).sum(-1))).to(p.dtype)


@wrong(references.sgd, "accuracy", smallest=4)
def sgd_takes_a_zero_buffer_for_a_new_one(
    param, grad, momentum_buffer, *, step, lr, momentum, dampening, nesterov, weight_decay
):
    """A buffer that is all 0 takes the whole gradient, as at step 1, whatever the step and the dampening."""
    g = grad.double() + weight_decay * param.double()
    first = step == 1 or not bool(momentum_buffer.any())
    buffer = g if first else momentum * momentum_buffer.double() + (1 - dampening) * g
    update = (g + momentum * buffer if nesterov else buffer) if momentum else g
    momentum_buffer.copy_(buffer if momentum else momentum_buffer)
    param.copy_(param.double() - lr * update)


@wrong(references.adam, "layout", "accuracy", smallest=16)
def adam_sums_an_expanded_gradient(
    param, grad, exp_avg, exp_avg_sq, *, step, lr, beta1, beta2, eps, weight_decay, decoupled
):
    """A gradient of one element for all is added up along its first axis."""
    g = grad.double() * (len(grad) if grad.ndim > 1 and not any(grad.stride()) else 1)
    p = param.double()
    p = p * (1 - lr * weight_decay) if decoupled else p
    g = g if decoupled else g + weight_decay * p
    m = beta1 * exp_avg.double() + (1 - beta1) * g
    v = beta2 * exp_avg_sq.double() + (1 - beta2) * g * g
    bias = (1 - beta1**step, 1 - beta2**step)
    exp_avg.copy_(m)
    exp_avg_sq.copy_(v)
    param.copy_(p - lr * (m / bias[0]) / ((v / bias[1]).sqrt() + eps))
