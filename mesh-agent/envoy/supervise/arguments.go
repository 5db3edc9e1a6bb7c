package supervise

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Arguments are settings that Envoy takes on its command line, or in its environment.
type Arguments struct {
	concurrency        int
	logLevel           string
	componentLogLevels string
	logFormat          string
	listenerDrain      time.Duration
	flushEvery         time.Duration
	flushAt            uint32 // in KiB
	statsTags          map[string]string
	variables          map[string]string
}

// Flags declares the flags of the arguments.
func (a *Arguments) Flags(flags *pflag.FlagSet) {
	flags.IntVar(&a.concurrency, "concurrency", 2, "number of Envoy's worker threads, 0: one a CPU")
	flags.StringVar(&a.logLevel, "envoy-log-level", "warning", "Envoy's log level: trace, debug, info, warning, error, critical or off")
	// Envoy's "misc" logger warns of deprecated fields at every update, and nobody on the machine
	// can change those.
	flags.StringVar(&a.componentLogLevels, "envoy-component-log-level", "misc:error", "log levels of Envoy's components: upstream:debug,config:trace")
	flags.StringVar(&a.logFormat, "envoy-log-format", "", "format of Envoy's log, as spdlog has it (default: Envoy's own)")
	flags.DurationVar(&a.listenerDrain, "listener-drain-time", 45*time.Second,
		"how long connections may go on over a listener that a change of the mesh has replaced")
	flags.DurationVar(&a.flushEvery, "file-flush-interval", 10*time.Second, "how often Envoy writes its access logs out")
	flags.Uint32Var(&a.flushAt, "file-flush-min-size", 64, "how many KiB of an access log Envoy writes out before the time has come")
	flags.StringToStringVar(&a.statsTags, "stats-tags", nil, "tags of all of Envoy's statistics: rack=7,site=eu")
	flags.StringToStringVar(&a.variables, "envoy-env", nil, "variables of Envoy's environment, beside those of this agent; access logs have them as %ENVIRONMENT(NAME)%")
}

// List returns the arguments.
func (a *Arguments) List() []string {
	args := []string{
		"--log-level", a.logLevel,
		"--drain-time-s", strconv.Itoa(int(a.listenerDrain.Seconds())),
		"--file-flush-interval-msec", strconv.FormatInt(a.flushEvery.Milliseconds(), 10),
		"--file-flush-min-size-kb", strconv.FormatUint(uint64(a.flushAt), 10),
	}
	if a.concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(a.concurrency))
	}
	if a.componentLogLevels != "" {
		args = append(args, "--component-log-level", a.componentLogLevels)
	}
	if a.logFormat != "" {
		args = append(args, "--log-format", a.logFormat)
	}
	for _, name := range slices.Sorted(maps.Keys(a.statsTags)) {
		args = append(args, "--stats-tag", name+":"+a.statsTags[name])
	}
	return args
}

// Environment returns the variables that Envoy has beside those of this process.
func (a *Arguments) Environment() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(a.variables)) {
		all = append(all, name+"="+a.variables[name])
	}
	return all
}
