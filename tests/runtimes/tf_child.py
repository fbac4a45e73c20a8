"""Runs inside the environment of TensorFlow: models of every kind, with what TensorFlow computes for them.

usage: python tf_child.py FOLDER [MODEL ...]
Writes into FOLDER one model for each function in MODELS, and NAME.npz with its inputs (in_NAME) and outputs (out_NAME). Of a
MODEL (a frozen graph or SavedModel) only the numbers are written.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def record(folder, name, inputs, outputs):
    arrays = {f"in_{key}": value for key, value in inputs.items()}
    arrays |= {f"out_{key}": np.asarray(value) for key, value in outputs.items()}
    np.savez(folder / f"{name}.npz", **arrays)


def save_keras(folder, name, model, inputs, names):
    for variable in model.variables:
        if "variance" not in variable.path and np.issubdtype(np.dtype(variable.dtype), np.floating):
            variable.assign(0.3 * normal(*variable.shape))
    model.save(folder / name)
    results = model(list(inputs.values()) if len(inputs) > 1 else next(iter(inputs.values())), training=False)
    record(folder, name, inputs, dict(zip(names, tf.nest.flatten(results), strict=True)))


def keras_cnn(folder):
    """NHWC with all that makes a layout hard to turn: residuals, concatenation along channels, means, padding on one side."""
    x = keras.Input((16, 12, 3), name="picture")
    y = keras.layers.Conv2D(8, 3, strides=2, padding="same", name="first")(x)
    y = keras.layers.BatchNormalization()(y)
    y = keras.layers.ReLU(max_value=6)(y)
    z = keras.layers.DepthwiseConv2D(3, padding="same", activation="relu")(y)
    z = keras.layers.Conv2D(8, 1, activation="hard_sigmoid")(z)
    y = keras.layers.Add()([y, z])
    y = keras.layers.Concatenate()([y, keras.layers.AveragePooling2D(3, strides=1, padding="same")(y)])
    y = keras.layers.ZeroPadding2D(((0, 1), (0, 1)))(y)
    y = keras.layers.Conv2D(8, 3, strides=2, activation="swish")(y)
    y = keras.layers.UpSampling2D(2, interpolation="bilinear")(y)
    y = keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="gelu")(y)
    pooled = keras.layers.GlobalAveragePooling2D()(y)
    classes = keras.layers.Dense(5, activation="softmax", name="classes")(pooled)
    model = keras.Model(x, classes)
    save_keras(folder, "cnn.keras", model, {"picture": normal(2, 16, 12, 3)}, ["classes"])


def keras_two(folder):
    """Two inputs, two outputs, an open length, in the older format."""
    tokens, scale = keras.Input((None, 6), name="tokens"), keras.Input((1,), name="scale")
    y = keras.layers.LSTM(5, return_sequences=True)(tokens)
    y = keras.layers.Bidirectional(keras.layers.GRU(4), name="both")(y)
    y = keras.layers.Multiply()([y, scale])
    model = keras.Model(
        [tokens, scale], [keras.layers.Dense(3, name="head")(y), keras.layers.Dropout(0.5, name="kept")(y)]
    )
    save_keras(folder, "two.h5", model, {"tokens": normal(1, 7, 6), "scale": normal(1, 1)}, ["head", "kept"])


def keras_attention(folder):
    x = keras.Input((9, 8), name="rows")
    y = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    y = keras.layers.LayerNormalization()(keras.layers.Add()([x, y]))
    y = keras.layers.Dense(8, activation="gelu")(y)
    model = keras.Sequential(
        [keras.Input((9, 8), name="rows"), keras.Model(x, y, name="block"), keras.layers.Flatten()]
    )
    save_keras(folder, "attention.keras", model, {"rows": normal(2, 9, 8)}, ["flatten"])


def keras_grouped(folder):
    """A function that XLA would compile, and sizes whose quotient in float32 is too small."""
    x = keras.Input((22, 9, 4), name="picture")
    y = keras.layers.Conv2D(6, 3, groups=2, padding="same", name="grouped")(x)
    y = keras.layers.Resizing(21, 9, interpolation="nearest")(y)
    model = keras.Model(x, keras.layers.Resizing(37, 18, interpolation="bilinear", name="resized")(y))
    save_keras(folder, "grouped.keras", model, {"picture": normal(2, 22, 9, 4)}, ["resized"])


def lowered(folder):
    """A recurrent layer, frozen as the function does it by itself, and as it should."""
    model = keras.Sequential([keras.Input((6, 4), batch_size=1), keras.layers.GRU(3)])
    function = tf.function(model).get_concrete_function(tf.TensorSpec((1, 6, 4), name="x"))
    x = normal(1, 6, 4)
    for name, lower in (("lowered.pb", True), ("loops.pb", False)):
        graph = convert_variables_to_constants_v2(function, lower_control_flow=lower).graph
        (folder / name).write_bytes(graph.as_graph_def().SerializeToString())
    record(folder, "loops.pb", {"x": x}, {"Identity": model(x)})


class Module(tf.Module):
    """Two signatures with names of their own."""

    def __init__(self):
        self.weight = tf.Variable(normal(4, 3))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="left"), tf.TensorSpec([None, 3], name="right")])
    def both(self, left, right):
        product = left @ self.weight
        return {"total": product + right, "largest": tf.reduce_max(product, axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="left")])
    def one(self, left):
        return {"total": left @ self.weight}


def saved_model(folder):
    module = Module()
    left, right = normal(2, 4), normal(2, 3)
    signatures = {"serving_default": module.both, "alone": module.one}
    tf.saved_model.save(module, str(folder / "module"), signatures=signatures)
    record(folder, "module", {"left": left, "right": right}, module.both(left, right))


def functions(folder):
    """What ONNX does not have, with numbers of which 1 must not be added and taken away again."""
    x = np.concatenate([normal(4, 5) * size for size in (1e-6, 1e-3, 1.0, 20.0)])
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.float32, [None, 5], name="x")
        size = tf.abs(given) + 1e-7
        tf.identity(tf.math.expm1(given) / size + tf.math.log1p(tf.maximum(given, -0.9)) / size, name="relative")
        value = session.run("relative:0", {given: x})
        (folder / "functions.pb").write_bytes(graph.as_graph_def().SerializeToString())
    record(folder, "functions.pb", {"x": x}, {"relative": value})


def apart(folder):
    """What tf2onnx writes otherwise, or not: quotients of negative integers, sums at one place, nearest elements, gaps, steps."""
    picture, whole = normal(1, 5, 6, 4), np.array([[-7, 7, -8], [9, -1, 5]], np.int32)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [1, 5, 6, 4], name="picture")
        n = tf.compat.v1.placeholder(tf.int32, [2, 3], name="whole")
        by = tf.constant([[2, -2, 3], [-4, 3, 5]])
        tf.identity(n // by, name="quotients")
        tf.identity(n % by, name="remainders")
        tf.scatter_nd([[1], [1], [3]], tf.reshape(x, [3, 40]), [5, 40], name="added")
        tf.image.crop_and_resize(
            x, [[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 0.5]], [0, 0], [4, 5], "nearest", name="crops"
        )
        spread = tf.nn.conv2d_transpose(x, normal(1, 2, 3, 4), [1, 15, 18, 3], 3, "SAME")
        tf.identity(spread, name="gaps")
        for name, width in (("nearest", 37), ("nearest_old", 74)):
            is_new = name == "nearest"
            tf.raw_ops.ResizeNearestNeighbor(images=x, size=[3, width], half_pixel_centers=is_new, name=name)
        tf.raw_ops.Bucketize(input=n, boundaries=[-7.5, -1.0, 5.0, 7.25], name="steps_of_integers")
        tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, -0.3, 0.2, 1.1], name="steps")
        tf.one_hot(n, 8, 2.0, -1.0, name="places")
        for name, function in (("highest", tf.math.unsorted_segment_max), ("lowest", tf.math.unsorted_segment_min)):
            function(tf.reshape(x, [3, 40]), [2, 0, 2], 4, name=name)
        tf.math.unsorted_segment_max(tf.reshape(x, [3, 40]), [2, 0, -1], 4, name="highest_without_rest")
        numbers = tf.reshape(n, [-1])
        tf.math.unsorted_segment_sum(tf.cast(numbers, tf.float32), numbers, tf.size(numbers) + 4, name="sums")
        names = (
            "quotients",
            "remainders",
            "added",
            "crops",
            "gaps",
            "nearest",
            "nearest_old",
            "steps_of_integers",
            "steps",
            "places",
            "highest",
            "lowest",
            "highest_without_rest",
            "sums",
        )
        values = session.run([f"{name}:0" for name in names], {x: picture, n: whole})
        (folder / "apart.pb").write_bytes(graph.as_graph_def().SerializeToString())
    record(folder, "apart.pb", {"picture": picture, "whole": whole}, dict(zip(names, values, strict=True)))


def aware(folder):
    """A graph of quantization-aware training: narrow weights, one range and one per channel, 6 bits, ranges that move."""
    picture, one = normal(1, 8, 8, 3), tf.quantization.fake_quant_with_min_max_vars
    first, second, last = normal(3, 3, 3, 8) * 0.2, normal(3, 3, 8, 1) * 0.3, normal(8, 5)
    channels = np.abs(first).max((0, 1, 2)) * 1.1
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = one(tf.compat.v1.placeholder(tf.float32, [1, 8, 8, 3], name="picture"), -3.0, 3.1)
        weight = tf.quantization.fake_quant_with_min_max_vars_per_channel(first, -channels, channels, narrow_range=True)
        x = one(tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight, 1, "SAME"), normal(8) * 0.1)), 0.0, 3.0)
        x = tf.nn.depthwise_conv2d(x, one(second, -0.9, 0.9, narrow_range=True), [1, 2, 2, 1], "SAME")
        x = tf.quantization.fake_quant_with_min_max_args(tf.nn.relu6(x), 0.0, 6.0, num_bits=6)
        x = tf.reduce_mean(x, [1, 2])
        tf.identity(one(tf.matmul(x, one(last, -3.0, 2.0)), -1.0, 1.0, narrow_range=True), name="classes")
        values = session.run("classes:0", {"picture:0": picture})
        (folder / "aware.pb").write_bytes(graph.as_graph_def().SerializeToString())
    record(folder, "aware.pb", {"picture": picture}, {"classes": values})


def frozen_v1(folder):
    """A graph of TensorFlow 1, also as a SavedModel of that time: a loop, a dropout that is fed, an unknown rank."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, None, name="x")
        keep = tf.compat.v1.placeholder(tf.float32, [], name="keep")
        weight = tf.compat.v1.get_variable("weight", initializer=normal(5, 5), use_resource=False)
        y = tf.reshape(x, [-1, 5])
        y = y / keep * tf.floor(tf.random.uniform(tf.shape(y)) + keep)
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.tanh(v @ weight)), [0, y])
        first, second = tf.split(tf.identity(y, name="after"), [2, 3], axis=1, name="halves")
        session.run(tf.compat.v1.global_variables_initializer())
        feed = {"x": normal(4, 5), "keep": np.float32(1)}
        values = session.run([first, second], {x: feed["x"], keep: 1.0})
        frozen = tf.compat.v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["halves"])
        (folder / "loop.pb").write_bytes(frozen.SerializeToString())
        builder = tf.compat.v1.saved_model.Builder(str(folder / "old"))
        signature = tf.compat.v1.saved_model.predict_signature_def(
            {"features": x, "kept": keep}, {"head": first, "tail": second}
        )
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
        builder.save()
    record(folder, "old", {"features": feed["x"]}, {"head": values[0], "tail": values[1]})
    record(folder, "loop.pb", {"x": feed["x"]}, {"halves": values[0], "halves:1": values[1]})


def hostile(folder):
    """Files that would do more than compute."""
    mark = str(folder / "executed")
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [1, 2], name="x")
        with tf.control_dependencies([tf.io.write_file(mark, "graph")]):
            tf.identity(x, name="y")
        (folder / "writes.pb").write_bytes(graph.as_graph_def().SerializeToString())
    layers = [keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)]
    keras.Sequential(layers).save(folder / "lambda.keras")
    keras.Sequential(layers).save(folder / "lambda.h5")
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]).save_weights(folder / "only.weights.h5")


MODELS = (
    keras_cnn,
    keras_two,
    keras_attention,
    keras_grouped,
    lowered,
    saved_model,
    functions,
    apart,
    aware,
    frozen_v1,
    hostile,
)


def shared(path, folder):
    if path.is_dir():
        with (
            tf.Graph().as_default(),
            tf.compat.v1.Session() as session,
        ):  # the newer loader does not know older optimizers
            definition = tf.compat.v1.saved_model.load(session, ["serve"], str(path)).signature_def["serving_default"]
            ((name, info),) = definition.inputs.items()
            x = normal(3, *(dim.size for dim in info.tensor_shape.dim[1:]))
            wanted = {key: output.name for key, output in definition.outputs.items()}
            record(folder, path.name, {name: x}, session.run(wanted, {info.name: x}))
        return
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        x = normal(3, 784)
        feed = {"X:0": x}
        if any(node.name == "keep_prob" for node in definition.node):
            feed["keep_prob:0"] = 1.0
        record(folder, path.name, {"X": x}, {"output": session.run("output:0", feed)})


def main(folder, models):
    for path in models:
        shared(Path(path), folder)
    for make in MODELS if not models else ():
        make(folder)


main(Path(sys.argv[1]), sys.argv[2:])
