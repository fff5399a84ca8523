// Package launchers contains only tests: launch starts each launcher of docs/guide/launchers.md that a
// package index has, the real one, on two hosts, and the processes count each other.
package launchers
