// Package libs holds the plan against the libraries themselves: each variable that a rule of envgen
// sets or looks at is read by a build of its library (tools/libs.sh and Debian's packages put these
// here), and programs that fail on their own, on hosts with a decoy interface, work after launch.
// There is no code here but tests.
package libs
