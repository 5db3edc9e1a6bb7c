package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// syntaxError says at which line and why the text is not YAML.
type syntaxError struct {
	line   int
	reason string
}

// readNodes reads the documents of a text, up to its first syntax error.
func readNodes(data []byte) ([]*yaml.Node, *syntaxError) {
	if nodes, ok := readJSON(data); ok {
		return nodes, nil
	}
	var nodes []*yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		node := &yaml.Node{}
		err := documents.Decode(node)
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err != nil {
			return nodes, explainSyntax(err)
		}
		nodes = append(nodes, node)
	}
}

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

	// parserError matches the errors of the library's parser, as opposed to those of its scanner.
	parserError = regexp.MustCompile(`^did not find expected (<|node content|key|'-' indicator|',' or)|^found (undefined|duplicate|incompatible)`)

	// encodingError matches errors that the library finds before it counts lines.
	encodingError = regexp.MustCompile(`UTF-|surrogate|Unicode|control characters`)
)

// explainSyntax parses the library's message. The library counts lines from 0 in errors of its
// parser and from 1 in those of its scanner, and leaves out line 0.
func explainSyntax(err error) *syntaxError {
	text := err.Error()
	found := yamlError.FindStringSubmatch(text)
	if found == nil || encodingError.MatchString(text) {
		return &syntaxError{reason: strings.TrimPrefix(text, "yaml: ")}
	}
	reason := strings.TrimPrefix(text, found[0])
	line, _ := strconv.Atoi(found[1])
	if line == 0 || parserError.MatchString(reason) {
		line++
	}
	return &syntaxError{line, reason}
}

// readJSON reads a text of nothing but JSON values. YAML includes nearly all of JSON, but neither
// tabs between tokens nor escaped surrogate pairs.
func readJSON(data []byte) ([]*yaml.Node, bool) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); !bytes.HasPrefix(trimmed, []byte("{")) {
		return nil, false
	}
	r := &jsonReader{data: data, line: 1, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	var nodes []*yaml.Node
	for {
		node, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return nodes, true
		}
		if err != nil {
			return nil, false
		}
		nodes = append(nodes, node)
	}
}

// jsonReader makes YAML nodes from JSON, so that one code path reads both and both have line
// numbers.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	line    int // at offset
	offset  int
}

const maxJSONDepth = 1000

var errTooDeep = errors.New("nested too deeply")

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: r.currentLine()}
	switch token := token.(type) {
	case json.Delim:
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		if token == '{' {
			node.Kind, node.Tag = yaml.MappingNode, "!!map"
		}
		return node, r.content(node, depth+1)
	case string:
		node.Tag, node.Value = "!!str", token
	case json.Number:
		node.Tag, node.Value = "!!float", token.String()
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(token)
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node, nil
}

// content reads the keys and values of an object or the items of a list, and the closing bracket.
func (r *jsonReader) content(node *yaml.Node, depth int) error {
	if depth > maxJSONDepth {
		return errTooDeep
	}
	for r.decoder.More() {
		child, err := r.value(depth)
		if err != nil {
			return err
		}
		node.Content = append(node.Content, child)
	}
	_, err := r.decoder.Token()
	return err
}

// currentLine returns the line of the token just read.
func (r *jsonReader) currentLine() int {
	end := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return r.line
}
