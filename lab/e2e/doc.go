// Package e2e holds the end-to-end tests: they run the launch binary on several
// hosts of a laboratory (lab/netns), with a stand-in for torchrun
// (lab/faketorchrun) and, in a few tests, with real ones. It also holds the
// benchmark of what launch costs. It contains only tests.
package e2e
