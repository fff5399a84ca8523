// Package nccl compares starts of NCCL on a real GPU without launch and with it. The package contains only
// tests; without a GPU that torch sees they are skipped.
package nccl
