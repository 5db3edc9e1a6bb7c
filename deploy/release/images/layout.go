package images

import (
	"encoding/base64"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index is an image for several architectures.
func Index(images map[string]v1.Image, arches []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range arches {
		image := images[arch]
		size, err := image.Size()
		if err != nil {
			return nil, err
		}
		digest, err := image.Digest()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Size: size, Digest: digest, Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	return index, nil
}

// How cosign finds an image, its signatures and its attestations in a folder: `cosign save` writes such,
// `cosign load` and `cosign verify --local-image` read them.
const (
	kind              = "kind"
	kindIndex         = "dev.cosignproject.cosign/imageIndex"
	kindSignatures    = "dev.cosignproject.cosign/sigs"
	kindAttestations  = "dev.cosignproject.cosign/atts"
	keySignature      = "dev.cosignproject.cosign/signature"
	keyPredicate      = "predicateType"
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeEnvelope      = "application/vnd.dsse.envelope.v1+json"
	keyName           = "org.opencontainers.image.ref.name"
)

// Attestation is a signed statement about an image.
type Attestation struct {
	Predicate string // its type
	Envelope  []byte // the statement in DSSE's envelope
}

// Payload is what a signature of an image signs: cosign's simple signing.
func Payload(name string, digest v1.Hash) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`,
		name, digest.String())
}

// Write writes an image to a folder, in the layout of OCI, with its signature and attestations.
func Write(folder, version string, index v1.ImageIndex, payload, signature []byte, attestations []Attestation) error {
	into, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := into.AppendIndex(index, layout.WithAnnotations(map[string]string{kind: kindIndex, keyName: version})); err != nil {
		return err
	}
	signatures, err := attached(mutate.Addendum{
		Layer:       static.NewLayer(payload, typeSimpleSigning),
		Annotations: map[string]string{keySignature: base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return err
	}
	if err := into.AppendImage(signatures, layout.WithAnnotations(map[string]string{kind: kindSignatures})); err != nil {
		return err
	}
	var statements []mutate.Addendum
	for _, a := range attestations {
		statements = append(statements, mutate.Addendum{
			Layer:       static.NewLayer(a.Envelope, typeEnvelope),
			Annotations: map[string]string{keySignature: "", keyPredicate: a.Predicate},
		})
	}
	stated, err := attached(statements...)
	if err != nil {
		return err
	}
	return into.AppendImage(stated, layout.WithAnnotations(map[string]string{kind: kindAttestations}))
}

// attached is an image whose layers are no files: what registries keep beside an image.
func attached(layers ...mutate.Addendum) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(image, layers...)
}
