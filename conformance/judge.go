package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pgmesh/pgmesh/conformance/explain"
	"github.com/pgmesh/pgmesh/conformance/recording"
)

// outcome is what came of one case.
type outcome struct {
	ID    string   `json:"id"`
	Tier  string   `json:"tier"`
	Fail  []string `json:"fail"`
	Error string   `json:"error"`

	same        bool     // as istiod's recording
	unexplained []string // differences and failures
}

func readOutcomes(report string) (outcomes []*outcome, err error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("the runner left no report: %w", err)
	}
	if err := json.Unmarshal(text, &outcomes); err != nil {
		return nil, fmt.Errorf("read %s: %w", report, err)
	}
	return outcomes, nil
}

// judge prints the result of each case, with its explanations. It returns an error for anything
// unexplained.
func (o options) judge(outcomes []*outcome, served string) error {
	explanations, err := explain.Load()
	if err != nil {
		return err
	}
	cases := filepath.Join(o.corpus, "cases")
	for _, one := range outcomes {
		c, err := explain.ReadCase(filepath.Join(cases, one.ID+".yaml"))
		if err != nil {
			return err
		}
		one.unexplained = explanations.Fails(c, one.failures())
		if !o.diff {
			continue
		}
		if err := one.compare(explanations, c, filepath.Join(cases, "golden"), served); err != nil {
			return err
		}
	}
	if err := summarize(os.Stdout, outcomes, o.diff); err != nil {
		return err
	}
	if o.diff {
		listReasons(os.Stdout, explanations)
	}
	return o.verdict(outcomes, explanations)
}

func (one *outcome) failures() []string {
	if one.Error != "" {
		return append(slices.Clone(one.Fail), one.Error)
	}
	return one.Fail
}

// compare adds the unexplained differences between the recording of a case and discovery's answer,
// if both exist.
func (one *outcome) compare(explanations explain.Explanations, c *explain.Case, istiod, discovery string) error {
	recorded, err := recording.Read(filepath.Join(istiod, one.ID+".xds.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		one.same = one.Error == "" // there is no recording to differ from
		return nil
	}
	if err != nil {
		return err
	}
	answered, err := recording.Read(filepath.Join(discovery, one.ID+".xds.gz"))
	if errors.Is(err, fs.ErrNotExist) && one.Error != "" {
		return nil
	}
	if err != nil {
		return err
	}
	before := explanations.Uses()
	one.unexplained = append(one.unexplained, explanations.Compare(c, recorded, answered)...)
	one.same = len(one.unexplained) == 0 && explanations.Uses() == before
	return nil
}

// verdict returns an error for an unexplained case and, if all cases ran, for an explanation that
// no case needed.
func (o options) verdict(outcomes []*outcome, explanations explain.Explanations) error {
	bad := slices.DeleteFunc(slices.Clone(outcomes), func(one *outcome) bool { return len(one.unexplained) == 0 })
	var unneeded error
	if o.diff && o.run == "" && o.tiers == allTiers {
		for _, e := range explanations.Unneeded() {
			unneeded = errors.Join(unneeded, fmt.Errorf("no case needs this explanation any more: take it out of conformance/explain/explanations.yaml: %s", e.Why))
		}
	}
	if len(bad) > 0 {
		return errors.Join(fmt.Errorf("%d of %d cases are not as they should be, and nothing explains why", len(bad), len(outcomes)), unneeded)
	}
	return unneeded
}
