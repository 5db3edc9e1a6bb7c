package mesh

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decode reads JSON without losing a digit of its numbers.
func decode(text []byte) (tree map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	if tree == nil {
		tree = map[string]any{}
	}
	return tree, nil
}
