// Package libs tests the plan with the libraries themselves. Each variable that a rule of envgen
// sets or reads is one that a build of its library reads; tools/libs.sh and Debian's packages
// install the builds. Programs that fail alone, on hosts with a decoy interface, work after launch.
// The package contains only tests.
package libs
