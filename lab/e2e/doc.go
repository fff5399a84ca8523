// Package e2e holds the end-to-end tests. They run the launch binary on several hosts of a
// laboratory (lab/netns), with a stand-in for torchrun (lab/faketorchrun); a few use real ones. It
// also holds the benchmark of what launch costs. It contains only tests.
package e2e
