"""The families of cases: each answer against the same in double precision, or computed a second way."""

import importlib
import itertools
import json
import pkgutil

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import runner.cases
from runner.cases import conv_networks, decoding, encoder_decoder, experts, small_networks
from runner.cases.operators import attention, elementwise, operator, products
from runner.cases.programs import distributed_tensors, extensions, requests, shapes, start, transforms
from runner.worker.case import REGISTER, Workload

#: Decoders of the same make: heads that share keys and values in one, all their own in the other. By their
#: vocabularies the length of a growing cache, which is counted by its mean, is a small share of the work.
decoding.SIZES.update(
    llama=decoding.DecoderSize(128, 8, 2, 256, 8192, llama=True),
    gpt2=decoding.DecoderSize(96, 6, 6, 192, 8192, llama=False),
)

for module in pkgutil.walk_packages(runner.cases.__path__, "runner.cases."):
    importlib.import_module(module.name)

#: Smaller than what is offered, where that would take long.
SMALLER = {
    "decoder_block": {"tokens": 8},
    "decoding": {"past": 8},
    "t5": {"tokens": 8, "layers": 1, "batch": 2},
    "convolution": {"batch": 1},
    "densenet_block": {"batch": 1},
    "padded_lengths": {"batch": 2, "layers": 1},
    "linear_layer": {"m": 3, "n": 40, "k": 56},
    "unique": {"numbers": 1000},
    "loss": {"rows": 64},
    "loss_backward": {"rows": 64},
    "recurrent_layer": {"batch": 4, "steps": 8, "hidden": 16},
    "small_records": {"batch": 2},
    "save_and_load": {"mebibytes": 8},
    "module_state": {"modules": 5},
    "distributed_tensors": {"count": 6},
    "small_weights": {"count": 5},
    "feature_pyramid": {"batch": 1},
    "flex_layer": {"heads": 2, "tokens": 256},
}
#: A rank that is killed is started again, and then does what this one does at once.
PART_OF_ANOTHER = {"elastic_restart failure=none"}
#: PyTorch's counter of operations cannot run around the first three and does not see the products of the
#: others, of the attention layer on its fast path, which is taken without gradients.
UNCOUNTABLE = {"flex_attention", "flex_layer", "ragged_feed_forward", "recurrent_layer", "attention_layer"}


def build(name, parameters, seed=0):
    torch.manual_seed(seed)
    return REGISTER[name].build(**parameters)


def double(value):
    return value.double() if value.is_floating_point() else value


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in flat(part)]


def error(ours, theirs):
    pairs = zip(flat(ours), flat(theirs), strict=True)
    return max(float((a.double() - b.double()).norm() / (b.double().norm() or 1.0)) for a, b in pairs)


def check(name, parameters):
    workload = build(name, parameters)
    if not isinstance(workload, Workload):
        if name == "start" and parameters["program"] != "spawned_worker":
            # Its text, here: one fresh process, and that with a worker, shows how all are started.
            exec(start._PROGRAMS[parameters["program"]], {})
        else:
            workload()
        return {"closure": True}
    model = workload.model.eval()
    answer = model(*workload.inputs)
    if answer is None:
        return {"changes_weights": True}
    again = build(name, parameters)
    same = again.model.eval()(*again.inputs)
    precise = build(name, parameters)
    reference = precise.model.double().eval()(*map(double, precise.inputs))
    counted = None
    if workload.flops is not None and name not in UNCOUNTABLE:
        fresh = build(name, parameters)
        fresh.model.eval()
        if name.endswith("_backward"):
            fresh.model(*fresh.inputs)
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            fresh.model(*fresh.inputs)
        counted = counter.get_total_flops()
    return {
        "error": error(answer, reference),
        "same_seed": error(same, answer),
        "flops": workload.flops,
        "counted": counted,
        "numbers": sum(tensor.numel() for tensor in flat(answer)),
    }


def every():
    found = {}
    for name, case in REGISTER.items():
        if not case.guards:
            continue
        texts = {key: values for key, values in case.grid.items() if isinstance(values[0], str)}
        for chosen in itertools.product(*texts.values()):
            first = {key: values[0] for key, values in case.grid.items()}
            parameters = first | SMALLER.get(name, {}) | dict(zip(texts, chosen, strict=True))
            label = name + "".join(f" {key}={value}" for key, value in zip(texts, chosen, strict=True))
            if label in PART_OF_ANOTHER or ("cuda" in label and not torch.cuda.is_available()):
                continue
            found[label] = check(name, parameters)
    return found


def decoded_one_by_one(model, growing):
    """How far logits of a prompt, token by token with a cache, are from those of the whole prompt."""
    torch.manual_seed(0)
    size, count = decoding.SIZES[model], 6
    decoder = decoding.Decoder(size, 2)
    tokens = torch.randint(size.vocabulary, (1, count))
    whole = decoder(tokens)
    step = decoding.GrowingCacheStep(decoder) if growing else decoding.FixedCacheStep(decoder, size, 1)
    past = torch.zeros(2, 2, 1, size.cached_heads, 0, size.head_width)
    rows = []
    for place in range(count):
        one = tokens[:, place : place + 1]
        if growing:
            logits, past = step(one, past)
        else:
            logits = step(one, torch.tensor([place]))
        rows.append(logits)
    return error(torch.cat(rows, 1), whole)


def generated_with_the_best_token():
    """The loop's logits against those of the finished target decoded at once."""
    torch.manual_seed(0)
    model = encoder_decoder.T5(2)
    source = torch.randint(encoder_decoder.VOCABULARY, (2, 5))
    logits = encoder_decoder.Generation(model, 4)(source)
    target = torch.cat([source.new_zeros(2, 1), logits.argmax(-1)], 1)
    return error(logits, model(source, target[:, :-1]))


def gradients_sample_by_sample():
    torch.manual_seed(0)
    network = transforms._small_convolutions()
    images, targets = torch.randn(3, 3, 16, 16), torch.randint(10, (3,))
    ours = transforms.PerSampleGradients(network)(images, targets)
    rows = []
    with torch.enable_grad():
        for image, target in zip(images, targets, strict=True):
            loss = F.cross_entropy(network(image[None]), target[None])
            found = torch.autograd.grad(loss, list(network.parameters()))
            rows.append(torch.stack([one.norm() for one in found]))
    return error(ours, torch.stack(rows, 1))


def inner_steps_task_by_task():
    torch.manual_seed(0)
    network = transforms._small_convolutions()
    images, targets = torch.randn(2, 3, 3, 16, 16), torch.randint(10, (2, 3))
    step = transforms.InnerStep(network)
    ours = step(images, targets)
    losses = []
    for image, target in zip(images, targets, strict=True):
        with torch.enable_grad():
            loss = F.cross_entropy(network(image), target)
            slopes = torch.autograd.grad(loss, list(network.parameters()))
        changed = {
            name: one - step.RATE * slope
            for (name, one), slope in zip(network.named_parameters(), slopes, strict=True)
        }
        losses.append(F.cross_entropy(torch.func.functional_call(network, changed, (image,)), target))
    return error(ours, torch.stack(losses))


def messages_by_matrix():
    torch.manual_seed(0)
    layer = transforms.GraphIsomorphismLayer(5).eval()
    nodes, edges = torch.randn(7, 5), torch.randint(7, (2, 20))
    adjacency = torch.zeros(7, 7)
    for source, target in edges.T.tolist():
        adjacency[target, source] += 1
    return error(layer(nodes, edges), layer.update(nodes + adjacency @ nodes))


def experts_token_by_token():
    torch.manual_seed(0)
    model, tokens = experts.MixtureOfExperts(), torch.randn(9, experts.WIDTH)
    rows = []
    for token in tokens:
        scores = model.router(token)
        best = scores.argsort(descending=True)[: experts.CHOSEN]
        shares = scores[best].softmax(0)
        rows.append(
            sum(share * model.experts[int(one)](token) for one, share in zip(best, shares, strict=True))
        )
    routed = error(model(tokens), torch.stack(rows))
    dense = dense_experts_of(model)
    return routed, error(dense(tokens), model(tokens))


def dense_experts_of(model):
    """The dense form of a mixture, whose biases are taken from it: the dense form has none."""
    dense = experts.DenseExperts()
    with torch.no_grad():
        dense.router.weight.copy_(model.router.weight)
        for number, expert in enumerate(model.experts):
            dense.up[number].copy_(expert[0].weight.t())
            dense.down[number].copy_(expert[2].weight.t())
            expert[0].bias.zero_()
            expert[2].bias.zero_()
    return dense


def bags_by_loop():
    workload = build("embedding_bag", {"rows": 50, "bags": 4, "length": 3})
    indices, offsets = workload.inputs
    table = workload.model.weight
    sums = [table[indices[start : start + 3]].sum(0) for start in offsets.tolist()]
    return error(workload.model(indices, offsets), torch.stack(sums))


def gradient_of_a_product():
    """Of x * y with cos(x * y) from outside, the gradient at x is y * cos(x * y)."""
    torch.manual_seed(0)
    left, right = torch.randn(4, 6), torch.randn(4, 1)
    model = operator.Backward(torch.mul)
    of_left, of_right = model(left, right)
    outer = (left * right).cos()
    expected = (right * outer, (left * outer).sum(1, keepdim=True))
    again = model(left, right)
    return max(error((of_left, of_right), expected), error(again, expected))


def windows_by_mask():
    """Attention in windows is attention over all tokens that sees those of its own window alone."""
    torch.manual_seed(0)
    tokens = 4 * attention._WINDOW
    query, key, value = (torch.randn(1, 2, tokens, 8) for _ in range(3))
    window = (torch.arange(tokens) - attention._WINDOW // 2) // attention._WINDOW % 4
    whole = F.scaled_dot_product_attention(query, key, value, attn_mask=window[:, None] == window)
    return error(attention._windows(query, key, value), whole)


def root_mean_square():
    torch.manual_seed(0)
    rows = torch.randn(4, 16)
    return error(elementwise._rms_norm(rows), F.rms_norm(rows, (16,), eps=1e-6))


def complex_product_by_parts():
    torch.manual_seed(0)
    left, right = torch.randn(5, 5, 2), torch.randn(5, 5, 2)
    (a, b), (c, d) = left.unbind(-1), right.unbind(-1)
    return error(products._complex_product(left, right), torch.stack((a @ c - b @ d, a @ d + b @ c), -1))


def jacobian_row_by_row(way):
    torch.manual_seed(0)
    network, rows = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh()), torch.randn(3, 5)
    expected = torch.stack([torch.autograd.functional.jacobian(network, row) for row in rows])
    return error(transforms.Jacobian(network, way)(rows), expected)


def padded_sentence_alone():
    """A padded sentence is encoded as it is alone, without its padding."""
    torch.manual_seed(0)
    model, hidden = shapes.PaddedEncoder(2).eval(), torch.randn(2, 6, shapes.WIDTH)
    padding = torch.arange(6) >= torch.tensor([[4], [6]])
    alone = model(hidden[:1, :4], padding[:1, :4])
    return error(model(hidden, padding)[:1, :4], alone)


def documents_by_dense_mask():
    """Attention by blocks of a mask is attention under the whole mask; blocks seen are those not empty."""
    workload, tokens = build("block_mask", {"kind": "used", "tokens": 512}), 512
    *heads, documents = workload.inputs
    places = torch.arange(tokens)
    mask = (documents[:, None] == documents) & (places[:, None] >= places)
    used = error(workload.model(*workload.inputs), F.scaled_dot_product_attention(*heads, attn_mask=mask))
    made = build("block_mask", {"kind": "made", "tokens": tokens})
    blocks = mask.unflatten(0, (-1, 128)).unflatten(-1, (-1, 128)).any(-1).any(1).sum(-1)
    return used, (made.model(documents).flatten() - blocks).abs().max().item()


def eight_bits_by_formula(kind):
    """Rounding to the nearest of 256 numbers, of each input where there are two."""
    workload = build("quantised", {"kind": kind, "rows": 8, "width": 8})

    def rounded(numbers, scale=0.05):
        return (numbers / scale + 128).round().clamp(0, 255)

    def back(numbers, scale=0.05):
        return (rounded(numbers, scale) - 128) * scale

    expected = {
        "to_integers": lambda images: rounded(images),
        "from_integers": lambda left, right: back(left),
        "cat": lambda left, right: rounded(torch.cat((left, right), 1)),
        "add": lambda left, right: rounded(back(left) + back(right), 0.1),
        "fake_tensor": lambda images: back(images),
        "fake_channel": lambda images: back(images, torch.tensor([0.05, 0.075, 0.1]).view(1, 3, 1, 1)),
    }[kind]
    found = workload.model(*workload.inputs).double() - expected(*workload.inputs).double()
    return found.abs().max().item()


def microscaled_by_formula():
    """How far numbers in mxfp8 are from the nearest ones that e4m3 has, and all of them from the images."""
    workload = build("quantised", {"kind": "mxfp8", "rows": 4, "width": 64})
    (images,) = workload.inputs
    rounded, shared = workload.model(images)
    largest = images.double().unflatten(-1, (-1, 32)).abs().amax(-1)
    scale = (largest.log2().floor() - 8).exp2().repeat_interleave(32, -1)
    found = rounded.view(torch.float8_e4m3fn).double() * scale
    step = ((images / scale).abs().log2().floor().clamp_min(-6) - 3).exp2()
    nearest = ((images / scale / step).round() * step).clamp(-448, 448) * scale
    same = (shared.double() - 127).exp2().repeat_interleave(32, -1)
    return {
        "apart": (found - nearest).abs().max().item(),
        "scales": error(same, scale),
        "rounding": error(found, images),
    }


def sentences_one_by_one():
    workload = build("ragged_feed_forward", {"batch": 3, "tokens": 6})
    model, (tokens, _) = workload.model, workload.inputs
    return error(workload.model(*workload.inputs), tokens + model.down(F.gelu(model.up(tokens))))


def distributed_by_hand():
    torch.manual_seed(0)
    rows = torch.randn(3, 4)
    stacked, summed = (distributed_tensors.OnDistributed(kind)(rows) for kind in ("stack", "sum"))
    return error(stacked, rows), error(summed, rows.sum(0))


def rotated_by_hand():
    """Turned heads keep their length, and a product of two depends on the distance alone."""
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def score(first, second):
        turned = [
            decoding.rotate(one, torch.tensor([place])) for one, place in ((query, first), (key, second))
        ]
        return float((turned[0] * turned[1]).sum())

    length = float(decoding.rotate(query, torch.tensor([5])).norm() / query.norm())
    return {"length": length, "apart": [score(3, 1), score(12, 10)], "other": score(3, 2)}


def operator_in_cpp():
    torch.manual_seed(0)
    rows = torch.randn(7, 5)
    return error(extensions._load()(rows), rows.clamp_min(0).square())


def lstm_step_by_step():
    torch.manual_seed(0)
    cell, sequence = small_networks.LstmCell(8), torch.randn(3, 5, small_networks.FEATURES)
    reference = torch.nn.LSTM(small_networks.FEATURES, 8, batch_first=True)
    with torch.no_grad():
        reference.weight_ih_l0.copy_(cell.from_input.weight)
        reference.bias_ih_l0.copy_(cell.from_input.bias)
        reference.weight_hh_l0.copy_(cell.from_state.weight)
        reference.bias_hh_l0.copy_(cell.from_state.bias)
    return error(cell(sequence), reference(sequence)[0][:, -1])


def waits_after_calls(extra):
    """The waits of a server called so many times after its first calls, and that none was negative."""
    server = requests.Server(torch.nn.Linear(4, 2), 16, torch.linspace(0, 0.01, requests.REQUESTS))
    for _ in range(requests.FIRST_CALLS + extra):
        server(torch.randn(requests.REQUESTS, 4))
    return {"many": len(server.waits), "positive": all(wait > 0 for wait in server.waits)}


def dense_block_width():
    block = conv_networks.DenseBlock(6)
    return block.head.in_features


with torch.no_grad():
    result = {
        "every": every(),
        "decoded": {
            f"{model} {growing}": decoded_one_by_one(model, growing)
            for model in decoding.SIZES
            for growing in (False, True)
        },
        "generated": generated_with_the_best_token(),
        "per_sample": gradients_sample_by_sample(),
        "inner": inner_steps_task_by_task(),
        "graph": messages_by_matrix(),
        "experts": experts_token_by_token(),
        "bags": bags_by_loop(),
        "gradient": gradient_of_a_product(),
        "windows": windows_by_mask(),
        "rms_norm": root_mean_square(),
        "complex_product": complex_product_by_parts(),
        "jacobian": {way: jacobian_row_by_row(way) for way in ("forward", "reverse")},
        "padded": padded_sentence_alone(),
        "rotated": rotated_by_hand(),
        "documents": documents_by_dense_mask(),
        "eight_bits": {
            kind: eight_bits_by_formula(kind)
            for kind in REGISTER["quantised"].grid["kind"]
            if kind != "mxfp8"
        },
        "microscaled": microscaled_by_formula(),
        "sentences": sentences_one_by_one(),
        "distributed": distributed_by_hand(),
        "dense_width": dense_block_width(),
        "operator_in_cpp": operator_in_cpp(),
        "lstm": lstm_step_by_step(),
        "waits": {extra: waits_after_calls(extra) for extra in (0, 2)},
    }
result["families"] = {name: case.family for name, case in REGISTER.items()}
print(json.dumps(result))
