package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// ContentVersion is a version of a resource that changes exactly when its content does, as MCP
// demands of metadata.version: 128 bits of a hash, in hex. The order of keys and the spaces in the
// spec do not matter.
//
// The create time counts because it is part of what is sent: a resource that is deleted and created
// again has another age. It counts in whole seconds, since some stores and senders keep no more.
func ContentVersion(labels, annotations map[string]string, spec json.RawMessage, createTime time.Time) (string, error) {
	tree, err := readTree(spec)
	if err != nil {
		return "", fmt.Errorf("hash a spec: %w", err)
	}
	return Tree{tree}.Version(labels, annotations, createTime)
}

// Version is the ContentVersion of a resource with this spec.
func (t Tree) Version(labels, annotations map[string]string, createTime time.Time) (string, error) {
	var created int64
	if !createTime.IsZero() {
		created = createTime.Unix()
	}
	content, err := compacted([]any{nonNil(labels), nonNil(annotations), t.root, created})
	if err != nil {
		return "", fmt.Errorf("hash a spec: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16]), nil
}

// nonNil makes a nil map and an empty one hash alike.
func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
