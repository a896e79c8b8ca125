"""How frames are kept on a device: as rows with elements put in (`runs`, `delta`), or by a codec of the host."""
