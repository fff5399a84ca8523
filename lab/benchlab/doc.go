// Package benchlab has only tests: launch bench on hosts of a laboratory whose
// links are shaped, and its streams compared with iperf3.
package benchlab
