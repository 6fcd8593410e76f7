"""One update of TD-MPC2 in float64 NumPy, from its equations: gradients by central differences, then Adam.

It shares nothing with the agent but the names of parameters and the numbers that were drawn.
"""

import numpy as np

DECAY, HALF_WIDTH = 0.5, 1e-6


def normalised(x, params, name):
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params[f"{name}/gain"]
        + params[f"{name}/shift"]
    )


def linear(x, params, name):
    return x @ params[f"{name}/weight"] + params[f"{name}/bias"]


def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def simplices(x, group):
    return np.concatenate([softmax(part) for part in np.split(x, x.shape[-1] // group, -1)], -1)


def network(x, params, name, *, layers, group=None, kept=None, dropout=0.0):
    for layer in range(layers - 1):
        x = linear(x, params, f"{name}/{layer}")
        if layer == 0 and kept is not None:
            x = kept * x / (1 - dropout)
        x = mish(normalised(x, params, f"{name}/{layer}"))
    x = linear(x, params, f"{name}/{layers - 1}")
    return x if group is None else simplices(normalised(x, params, f"{name}/{layers - 1}"), group)


def two_hot(x, bins):
    """Weights of the two bins around symlog(x), which is between them in proportion."""
    place = (np.clip(np.sign(x) * np.log1p(np.abs(x)), -10, 10) + 10) / 20 * (bins - 1)
    low = np.minimum(np.floor(place).astype(int), bins - 2)
    weights = np.zeros((*x.shape, bins))
    np.put_along_axis(weights, low[..., None], (low + 1 - place)[..., None], -1)
    np.put_along_axis(weights, low[..., None] + 1, (place - low)[..., None], -1)
    return weights


def cross_entropy(logits, x):
    return -(two_hot(x, logits.shape[-1]) * np.log(softmax(logits))).sum(-1)


def number(logits):
    mean = softmax(logits) @ np.linspace(-10, 10, logits.shape[-1])
    return np.sign(mean) * np.expm1(np.abs(mean))


class Reference:
    """The losses of one minibatch, with what was drawn for it."""

    def __init__(self, networks, batch, world, prior):
        self.n, self.batch, self.world, self.prior = networks, batch, world, prior

    def encode(self, params, x):
        return network(x, params, "model/encoder", layers=2, group=self.n.group)

    def act(self, params, latent, normal):
        raw = network(latent, params, "policy", layers=3)
        mean, spread = np.split(raw, 2, -1)
        log_std = -10 + 6 * (np.tanh(spread) + 1)
        action = np.tanh(mean + np.exp(log_std) * normal)
        gaussian = -0.5 * normal**2 - log_std - 0.5 * np.log(2 * np.pi)
        return action, (gaussian - np.log(1 - action**2 + 1e-6)).sum(-1)

    def value(self, params, kind, member, latent, action, kept=None):
        both = np.concatenate([latent, action], -1)
        return network(both, params, f"{kind}/{member}", layers=3, kept=kept, dropout=self.n.dropout)

    def fixed(self, params):
        """What a gradient does not pass through: encoded next observations and TD targets."""
        encoded = self.encode(params, self.batch.next_observation)
        action, _ = self.act(params, encoded, self.world.normal)
        ends = [number(self.value(params, "target", q, encoded, action)) for q in self.world.pair]
        return encoded, self.batch.reward + self.n.discount * np.minimum(*ends)

    def model(self, params, fixed):
        """The loss of model and values, and the latents along the sequences."""
        encoded, target = fixed
        latents = [self.encode(params, self.batch.observation[:, 0])]
        loss, steps = 0.0, self.batch.reward.shape[1]
        for t in range(steps):
            both = np.concatenate([latents[-1], self.batch.action[:, t]], -1)
            reward = cross_entropy(network(both, params, "model/reward", layers=3), self.batch.reward[:, t]).mean()
            value = np.mean(
                [
                    cross_entropy(
                        self.value(
                            params, "value", q, latents[-1], self.batch.action[:, t], self.world.kept[q][:, t]
                        ),
                        target[:, t],
                    ).mean()
                    for q in range(self.n.values)
                ]
            )
            latents.append(network(both, params, "model/dynamics", layers=3, group=self.n.group))
            consistency = ((latents[-1] - encoded[:, t]) ** 2).mean()
            loss += DECAY**t * (20 * consistency + 0.1 * reward + 0.1 * value) / steps
        return loss, np.stack(latents, 1)

    def policy(self, params, latents):
        """The loss of the policy, and the range of values after it."""
        action, log_probability = self.act(params, latents, self.prior.normal)
        ends = [
            number(self.value(params, "value", q, latents, action, self.prior.kept[place]))
            for place, q in enumerate(self.prior.pair)
        ]
        value = np.mean(ends, 0)
        low, high = np.percentile(value[:, 0], [5, 95])
        scale = 0.99 * params["scale/policy"][0] + 0.01 * max(high - low, 1.0)
        self.scale = getattr(self, "scale", scale)  # no gradient passes through it
        each = (1e-4 * log_probability - value / self.scale).mean(0)
        return (each * DECAY ** np.arange(len(each))).mean()


def gradients(loss, params, names):
    """Central differences of a loss in every number of the parameters `names`."""
    found = {}
    for name in names:
        found[name] = np.zeros_like(params[name])
        for place in np.ndindex(params[name].shape):
            sides = []
            for side in (1, -1):
                moved = params[name].copy()
                moved[place] += side * HALF_WIDTH
                sides.append(loss({**params, name: moved}))
            found[name][place] = (sides[0] - sides[1]) / (2 * HALF_WIDTH)
    return found


def adam(params, moments, grads, *, part, rate, epsilon):
    """New parameters and moments of one part, its gradients clipped together to a norm of 20."""
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    count = moments[f"count/{part}"] + 1
    after, kept = dict(params), {**moments, f"count/{part}": count}
    for name, g in grads.items():
        g = g * min(1.0, 20 / norm)
        mean = kept[f"mean/{name}"] = 0.9 * moments[f"mean/{name}"] + 0.1 * g
        square = kept[f"square/{name}"] = 0.999 * moments[f"square/{name}"] + 0.001 * g**2
        own = 0.3 * rate if name.startswith("model/encoder/") else rate
        after[name] = params[name] - own * (mean / (1 - 0.9**count)) / (
            np.sqrt(square / (1 - 0.999**count)) + epsilon
        )
    return after, kept


def update(reference, params, moments, *, rate):
    """One whole update: model and values, then the policy with what they have learnt, then the moving averages."""
    fixed = reference.fixed(params)
    loss, latents = reference.model(params, fixed)
    names = [name for name in params if name.startswith(("model/", "value/"))]
    grads = gradients(lambda some: reference.model(some, fixed)[0], params, names)
    params, moments = adam(params, moments, grads, part="model", rate=rate, epsilon=1e-8)
    policy = reference.policy(params, latents)
    names = [name for name in params if name.startswith("policy/")]
    grads = gradients(lambda some: reference.policy(some, latents), params, names)
    params, moments = adam(params, moments, grads, part="policy", rate=rate, epsilon=1e-5)
    targets = {
        name: 0.99 * x + 0.01 * params[name.replace("target/", "value/")]
        for name, x in params.items()
        if name.startswith("target/")
    }
    return {**params, **targets, "scale/policy": np.array([reference.scale])}, moments, loss, policy
