// Package model is the rendezvous' protocol in Promela, which its test checks in all
// interleavings by spin; see README.md.
package model
