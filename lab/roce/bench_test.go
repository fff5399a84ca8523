package roce

// sample is one measurement of a benchmark.
type sample struct {
	Tool  string  // launch, perftest
	Kind  string  // bw, lat
	Size  int     // bytes
	Value float64 // bytes/s, or seconds
}

var benchCases = []step{}
