// Package roce is a laboratory of two virtual machines with a Soft-RoCE device each, on one virtual
// cable: the kernel's own RDMA and the real libibverbs, without hardware. One test boots both machines,
// with the test's own binary as the main program in them (agent_test.go). The other tests judge the
// reports. The machines coordinate over a second cable, so that the first one can be pulled.
package roce
