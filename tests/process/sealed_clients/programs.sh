# Where the programs of the clients are.
PROGRAMS="$DIR/programs"
PYTHON="env LD_LIBRARY_PATH=$DIR/python/lib PYTHONPATH=$(echo "$DIR"/packages/*/site-packages)"
PYTHON="$PYTHON $(echo "$DIR"/python/bin/python3.??)"
NODE=$(echo "$PROGRAMS"/node_modules/node-linux-*/bin/node)
export PROGRAMS PYTHON NODE PYTHONDONTWRITEBYTECODE=1
