package hangs

// going are four ranks in their training.
const going = "0,1,2,3:step"

// healthyKinds are jobs that train.
func healthyKinds() []kind {
	quiet := want{state: "running"}
	return []kind{
		{name: "healthy", short: true, at: going, want: quiet},
		{name: "healthy-c10d", how: c10d, at: going, want: quiet},
		{name: "healthy-env", how: env, at: going, want: quiet},
		{name: "healthy-launch", how: launch, at: going, want: quiet},
		{name: "healthy-long-steps", args: "--work 2", at: going, want: quiet},
		{name: "healthy-one-node", hosts: 1, per: 4, at: going, want: quiet},
		{name: "healthy-large-tensors", args: "--numel 2000000", at: going, want: quiet},
		{name: "healthy-torch-1.13", old: true, at: going, want: quiet},
		{name: "healthy-torch-1.13-c10d", old: true, how: c10d, at: going, want: quiet},
		{name: "healthy-torch-1.13-launch", old: true, how: launch, at: going, want: quiet},
		{name: "healthy-eight-ranks", hosts: 4, at: "0,1,2,3,4,5,6,7:step", want: quiet},
	}
}
