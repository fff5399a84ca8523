package verbs

// What the tests of the whole package compare with.
const (
	ByDMABuf  = byDMABuf
	ByPeermem = byPeermem
	MaxQPs    = maxQPs
	MaxDepth  = maxDepth
	MaxPings  = maxPings
)

// Size writes a number of bytes as the errors do.
var Size = size
