// Package truth compares jobs without launch and with it, in environments that a generator draws
// from a seed. Where the job runs alone, launch must not fail it; where it hangs or dies, launch must
// say why, and on which node. The package contains only tests; `make truth` prints the matrix.
package truth
