//go:build !unix

package probe

import "os/exec"

func inOwnGroup(*exec.Cmd) {}
