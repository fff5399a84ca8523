package logs

import "testing"

// TestArgumentsAreNoSteps: a program that prints its arguments has not done a step.
func TestArgumentsAreNoSteps(t *testing.T) {
	for line, want := range map[string]bool{
		"Namespace(epochs=3, log_interval=10)":                    false,
		"+ python train.py --epochs 3 --max-steps 100":            false,
		"----- Epoch 3 ----- loss 0.5":                            true,
		"Epoch 3: 100%|##########| 20/20 [00:03<00:00,  6.1it/s]": true,
	} {
		if r := readText(t, line+"\n"); r.Moved != want {
			t.Errorf("%q: %v, want %v", line, r.Moved, want)
		}
	}
}
