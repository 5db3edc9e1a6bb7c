package version

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// UserAgent is how a program names itself and its version to servers of gRPC, as mesh-agent/1.4.0.
func UserAgent(program string) string { return program + "/" + Program() }

// mostOfPeer bounds a version, which is the peer's own word.
const mostOfPeer = 64

// OfPeer returns the version of a program that makes a call, as it names itself by [UserAgent]; "" if
// it is another program.
func OfPeer(ctx context.Context, program string) string {
	for _, agent := range metadata.ValueFromIncomingContext(ctx, "user-agent") {
		if rest, is := strings.CutPrefix(agent, program+"/"); is {
			version, _, _ := strings.Cut(rest, " ")
			return strings.Map(printable, version[:min(len(version), mostOfPeer)])
		}
	}
	return ""
}

// printable drops what is in no version: a header may have bytes that are not even UTF-8.
func printable(r rune) rune {
	if r <= ' ' || r > '~' {
		return -1
	}
	return r
}
