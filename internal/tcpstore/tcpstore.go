// Package tcpstore reads the store of a torch job (TCPStore of torch 1.13 and 2.x, both servers) without
// any effect on the job: it asks only what no waiter notices, and reads each answer at once.
package tcpstore
