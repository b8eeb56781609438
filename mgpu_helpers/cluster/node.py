"""The program of a scheduler or a server: ``python -m mgpu_helpers.cluster.node``.

Its role stands in the environment, and MXNet takes it up as soon as it is loaded: the import serves
until all workers are done, and then ends the process. With a word behind it, the process also ends
when its standard input does, as workers do.
"""

if __name__ == '__main__':
    import os
    import sys

    if os.environ.get('DMLC_ROLE') not in ('scheduler', 'server'):
        sys.exit('this is started by mgpu_helpers, as the scheduler or a server of a cluster')
    if sys.argv[1:]:
        from mgpu_helpers.processes.worker import end_with_starter

        end_with_starter(0)
    try:
        import mxnet  # noqa: F401
    except Exception as error:
        if 'bind failed' not in str(error):
            raise
        # Only a scheduler needs the very port that it was told.
        sys.exit(
            f'port {os.environ["DMLC_PS_ROOT_PORT"]} at {os.environ["DMLC_PS_ROOT_URI"]}, at which '
            'the scheduler should listen, was taken by another program: run again, with another '
            'port if you named this one'
        )
