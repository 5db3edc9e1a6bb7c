package yum

import (
	"fmt"
	"io"
	"os"

	"github.com/sassoftware/go-rpmutils"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// Sign copies a package with signatures: of its header, which has the digest of the rest, and of both
// for rpm of older systems.
func Sign(from, to string, key *signing.Key) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	header, err := rpmutils.ReadHeader(file)
	if err != nil {
		return fmt.Errorf("read the header of %s: %w", from, err)
	}
	span := header.GetRange()
	ofHeader, err := key.Packet(io.NewSectionReader(file, int64(span.Start), int64(span.End-span.Start)))
	if err != nil {
		return fmt.Errorf("sign the header of %s: %w", from, err)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	ofAll, err := key.Packet(io.NewSectionReader(file, int64(span.Start), info.Size()-int64(span.Start)))
	if err != nil {
		return fmt.Errorf("sign %s: %w", from, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	// The library's other way makes signatures itself, which are others each time.
	_, err = rpmutils.RewriteWithSignatures(file, to, ofAll, ofHeader)
	return err
}
