// Package roce is a laboratory of two virtual machines with a Soft-RoCE device
// each, joined by one virtual cable: the kernel's own RDMA and the real
// libibverbs, without hardware. One test boots both, with the test's own binary
// as the only program that matters in them (agent_test.go); the others judge what
// these have written. A second cable is what the machines agree over, so that
// the first one can be pulled.
package roce
