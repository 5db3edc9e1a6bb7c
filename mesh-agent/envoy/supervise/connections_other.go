//go:build !linux

package supervise

func portsOf(int, string) map[uint16]bool { return nil }

func connectionsTo(int, map[uint16]bool) []string { return nil }
