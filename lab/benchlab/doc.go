// Package benchlab has tests only: launch bench on the hosts of a laboratory
// whose links are shaped, and its streams beside those of iperf3.
package benchlab
