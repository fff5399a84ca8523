// Package e2e is the end-to-end tests: the launch binary on several hosts of a laboratory
// (lab/netns), before a stand-in for torchrun (lab/faketorchrun) and, in a handful, before real
// ones. It also holds the benchmark of what launch costs. There is no code here but tests.
package e2e
