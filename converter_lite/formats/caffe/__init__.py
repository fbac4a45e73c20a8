"""Caffe models: a description of the network as text (``.prototxt``) and its weights (``.caffemodel``). Caffe is not needed."""
