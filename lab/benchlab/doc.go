// Package benchlab contains only tests: launch bench runs on hosts of a laboratory
// with shaped links, and its streams are compared with iperf3's.
package benchlab
