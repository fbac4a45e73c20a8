"""Looking into models: layer by layer, what each layer costs, which kernels run, whether the inputs are what is expected."""
