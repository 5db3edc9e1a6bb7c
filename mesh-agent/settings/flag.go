package settings

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/program"
)

// Flag is the flag that names the file.
const Flag = "config"

// set sets a flag to the value of a key: a list or a map if the flag takes one, or a text as on the
// command line.
func set(flags *pflag.FlagSet, flag *pflag.Flag, n *yaml.Node) error {
	n = dealias(n)
	slice, isSlice := flag.Value.(pflag.SliceValue)
	isMap := strings.HasPrefix(flag.Value.Type(), "stringTo")
	switch {
	case isNull(n):
		return errors.New(`there is no value: leave the line out, or write ""`)
	case n.Kind == yaml.SequenceNode && isSlice:
		items, err := scalars(n.Content)
		if err != nil {
			return err
		}
		flag.Changed = true
		return slice.Replace(items)
	case n.Kind == yaml.MappingNode && isMap:
		return setMap(flags, flag, n)
	case n.Kind != yaml.ScalarNode:
		return fmt.Errorf("expected %s, not %s", expected(isSlice, isMap), kindOf(n))
	}
	return explain(flag, n.Value, flags.Set(flag.Name, n.Value))
}

func expected(isSlice, isMap bool) string {
	switch {
	case isSlice:
		return "a value or a list of them"
	case isMap:
		return "a map"
	}
	return "one value"
}

func scalars(nodes []*yaml.Node) (all []string, err error) {
	for _, n := range nodes {
		n = dealias(n)
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return nil, fmt.Errorf("expected one value in line %d, not %s", n.Line, kindOf(n))
		}
		all = append(all, n.Value)
	}
	return all, nil
}

// setMap converts a map to a line of CSV, as on the command line.
func setMap(flags *pflag.FlagSet, flag *pflag.Flag, n *yaml.Node) error {
	all, err := scalars(n.Content)
	if err != nil {
		return err
	}
	var pairs []string
	seen := map[string]bool{}
	for i := 0; i+1 < len(all); i += 2 {
		if seen[all[i]] {
			return fmt.Errorf("%q is there twice", all[i])
		}
		if seen[all[i]] = true; strings.Contains(all[i], "=") {
			return fmt.Errorf("%q has an equals sign, which no name has", all[i])
		}
		pairs = append(pairs, all[i]+"="+all[i+1])
	}
	if len(pairs) == 0 {
		return nil
	}
	var line bytes.Buffer
	w := csv.NewWriter(&line)
	if err := w.Write(pairs); err != nil {
		return err
	}
	w.Flush()
	text := strings.TrimSuffix(line.String(), "\n")
	return explain(flag, text, flags.Set(flag.Name, text))
}

// explain replaces a parser's error by what the flag expects.
func explain(flag *pflag.Flag, value string, err error) error {
	if err == nil {
		return nil
	}
	switch kind := flag.Value.Type(); kind {
	case "duration":
		return fmt.Errorf("%q is no duration: write it with a unit, as 5s or 1m30s", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "int", "int32", "int64", "uint", "uint16", "uint32", "uint64", "float64":
		return fmt.Errorf("%q is no number that it takes", value)
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return err
}

// Origin returns where a flag's value comes from: "flag", "default", a variable, or a line of the
// file.
func Origin(flag *pflag.Flag) string {
	from := flag.Annotations[program.From]
	switch {
	case len(from) > 0:
		return from[0]
	case flag.Changed:
		return "flag"
	default:
		return "default"
	}
}
