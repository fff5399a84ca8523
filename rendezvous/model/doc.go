// Package model checks the rendezvous' protocol in all interleavings, for a
// few nodes and a few faults: rendezvous.pml, for spin. README.md says what is
// checked and what is not. There is no code here but the test that runs it.
package model
