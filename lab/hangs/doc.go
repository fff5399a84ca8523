// Package hangs makes starts of a real torch that hang, are slow or are healthy, on several hosts
// of a laboratory (lab/netns), and asks launch doctor for the cause while they do. It contains only
// tests. LAUNCH_HANGS=full makes all kinds, LAUNCH_HANGS=NAME,NAME some; LAUNCH_HANGS_RECORD=DIR
// keeps what the doctor answers, with the scenes.
package hangs
