"""Full-batch D-PSGD as a plain NumPy loop: local step with momentum and weight decay, then one mixing step."""

import numpy as np


def full_batch_dpsgd(params, images, labels, owner, mixes, lr, momentum, weight_decay, gradient):
    """Rounds of local full-batch SGD and mixing (MADFL section II-B and algorithm 1; DADFL section III and V-A).

    The optimiser is PyTorch's SGD, as the papers' momentum 0.9 and weight decay 5e-4 are meant:
    g <- g + weight_decay w; v <- momentum v + g; w <- w - lr v. The momentum stays with its client; the models mix.

    Args:
      params: [N, ...] the clients' models.
      images: [n, ...] all samples.
      labels: [n] their labels.
      owner: [n] the client that holds the sample, -1 for nobody.
      mixes: [R, N, N] W(t) of every round.
      lr: learning rate.
      momentum: factor on the kept velocity.
      weight_decay: factor on the model that is added to the gradient.
      gradient: (params_i, images_i, labels_i) -> the mean gradient over these samples; not called without samples.

    Returns:
      [R + 1, N, ...] the models before the first round and after each one.

    >>> gradient = lambda w, x, y: np.mean([w - xi for xi in x], axis=0)  # of half the squared distance to x
    >>> start, data, owner = np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), [0, 0]
    >>> half = np.full((2, 2), 0.5)
    >>> out = full_batch_dpsgd(start, data, [0, 0], owner, [np.eye(2), half], 0.1, 0.5, 0.0, gradient)
    >>> out[:, :, 0].round(4).tolist()  # w_0: 0 -> 0.2 -> 0.48 before mixing (v: -2, then -1 - 1.8); w_1 stays at 1
    [[0.0, 1.0], [0.2, 1.0], [0.74, 0.74]]
    >>> alone = full_batch_dpsgd(start, data, [0, 0], owner, [np.eye(2)], 0.1, 0.5, 0.1, gradient)
    >>> alone[1, 1].round(4).tolist()  # no sample: only the weight decay acts
    [0.99]
    """
    models = np.array(params, np.float64)
    num_clients = len(models)
    velocity = np.zeros_like(models)
    history = [models.copy()]
    for mix in mixes:
        stepped = np.zeros_like(models)
        for i in range(num_clients):
            held = [sample for sample in range(len(owner)) if int(owner[sample]) == i]
            step = np.zeros_like(models[i])
            if held:
                mine = np.stack([np.asarray(images[sample]) for sample in held])
                step = step + gradient(models[i], mine, np.array([labels[sample] for sample in held]))
            step = step + weight_decay * models[i]
            velocity[i] = momentum * velocity[i] + step
            stepped[i] = models[i] - lr * velocity[i]
        models = np.zeros_like(stepped)
        for i in range(num_clients):
            for j in range(num_clients):
                models[i] = models[i] + float(mix[i][j]) * stepped[j]
        history.append(models.copy())
    return np.stack(history)
