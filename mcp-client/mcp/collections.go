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

// errUnknownCollection is why a legacy stream ended that asked for something that is younger than the source.
var errUnknownCollection = errors.New("the source does not know a collection")

// unknownCollections are those that a legacy source ended a stream for, as Galley does for each that it does not serve. They
// are not asked for again until the source is another version of itself.
type unknownCollections struct {
	version string
	names   map[string]bool
}

func (u *unknownCollections) has(collection string) bool { return u.names[collection] }

// from takes in which version of the source is answering.
func (u *unknownCollections) from(version string) {
	if version != u.version {
		u.version, u.names = version, nil
	}
}

// notice finds in the end of a stream the collection that was the reason, if one was.
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
	// One name may begin another: the longest is the one that is meant.
	u.names[slices.MaxFunc(named, func(a, b string) int { return len(a) - len(b) })] = true
	return fmt.Errorf("%w: %w", errUnknownCollection, err)
}

// versionOf is the version of itself that a source tells in the header of a stream, of which something was received.
func versionOf(stream grpc.ClientStream) string {
	header, err := stream.Header()
	if err != nil {
		return ""
	}
	return strings.Join(header.Get(legacyv1.VersionHeader), ",")
}
