package calls

import "time"

// pauseTick is how often a process shows that it runs.
const pauseTick = 100 * time.Millisecond

// LongPause is a time without processor in which the limits of the other side of a call pass.
const LongPause = 2 * time.Second

// WatchPauses begins to watch whether this process runs: it may be stopped, or the machine too busy. The function that
// it returns ends that, and returns the longest pause.
func WatchPauses() (longest func() time.Duration) {
	end, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(pauseTick)
		defer tick.Stop()
		last, most := time.Now(), time.Duration(0)
		for ended := false; !ended; {
			select {
			case <-tick.C:
			case <-end:
				ended = true
			}
			most, last = max(most, time.Since(last)), time.Now()
		}
		result <- most
	}()
	return func() time.Duration {
		close(end)
		return <-result
	}
}
