package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/kinds"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// errUnknownCollection ends a legacy stream that asked for a collection the source is too old to
// know.
var errUnknownCollection = errors.New("the source does not know a collection")

// unknownCollections are the collections for which a legacy source has ended a stream: Galley does
// that for each one it does not serve. The client does not ask for them again until the version of
// the source changes.
type unknownCollections struct {
	version string
	names   map[string]bool
}

func (u *unknownCollections) has(collection string) bool { return u.names[collection] }

// from notes the version of the source, and forgets everything if it changed.
func (u *unknownCollections) from(version string) {
	if version != u.version {
		u.version, u.names = version, nil
	}
}

// notice extracts from the end of a stream the unknown collection that was the reason, if one was.
func (u *unknownCollections) notice(stream grpc.ClientStream, err error) error {
	if status.Code(err) != codes.InvalidArgument {
		return err
	}
	var named []string
	for _, k := range kinds.All() {
		if k.Collection != "" && !u.has(k.Collection) && strings.Contains(status.Convert(err).Message(), k.Collection) {
			named = append(named, k.Collection)
		}
	}
	if len(named) == 0 {
		return err
	}
	u.from(versionOf(stream))
	if u.names == nil {
		u.names = map[string]bool{}
	}
	// A name may be the beginning of another, so the longest is the one meant.
	u.names[slices.MaxFunc(named, func(a, b string) int { return len(a) - len(b) })] = true
	return fmt.Errorf("%w: %w", errUnknownCollection, err)
}

// versionOf returns the source's version from the header of a stream on which something was
// received.
func versionOf(stream grpc.ClientStream) string {
	header, err := stream.Header()
	if err != nil {
		return ""
	}
	return strings.Join(header.Get(legacyv1.VersionHeader), ",")
}
