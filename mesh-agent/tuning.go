package main

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

// tuningFlags are settings of Envoy other than the mesh's.
type tuningFlags struct {
	bootstrap.Tuning

	template string
	heap     uint64 // in MiB
	user     string
}

func (f *tuningFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.template, "bootstrap-template", "", "file with what is merged over Envoy's bootstrap: YAML or JSON, in which {{.ID}} and {{env \"NAME\"}} stand for what they say")
	flags.StringVar(&f.ServiceCluster, "service-cluster", "", "name of the application in Envoy's statistics and traces (default: APP.NAMESPACE by the label app, or the id)")
	flags.StringSliceVar(&f.StatsPrefixes, "stats-inclusion-prefixes", nil, "what Envoy measures beside what it always does, by how names begin")
	flags.StringSliceVar(&f.StatsSuffixes, "stats-inclusion-suffixes", nil, "what Envoy measures beside what it always does, by how names end")
	flags.StringSliceVar(&f.StatsRegexps, "stats-inclusion-regexps", nil, "what Envoy measures beside what it always does, by regular expressions for whole names; .* for everything")
	flags.StringVar(&f.Statsd, "statsd", "", "IP:port that Envoy sends its statistics to over UDP")
	flags.StringVar(&f.OutlierLog, "outlier-log-path", "", "file that Envoy writes down in which endpoints it ejects, and when they are back")
	flags.Uint64Var(&f.MaxConnections, "max-connections", 0, "how many connections clients may have open to Envoy at once, 0 for any number")
	flags.Uint64Var(&f.heap, "max-heap-mib", 0, "how much memory Envoy may use before it turns requests away, 0 for any amount")
	flags.StringToStringVar(&f.Runtime, "envoy-runtime", nil, "runtime settings of Envoy: envoy.reloadable_features.some_feature=false")
	flags.StringVar(&f.user, "envoy-user", "", "account that Envoy runs under (default: that of this agent); it may still listen on ports below 1024")
}

func (f *tuningFlags) tuning() bootstrap.Tuning {
	t := f.Tuning
	t.MaxHeap = f.heap << 20
	return t
}

// account returns the account for Envoy, nil for this agent's.
func (f *tuningFlags) account() (*supervise.Account, error) {
	if f.user == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("--envoy-user %s: only root may run Envoy under another account: leave the flag out, or run the agent as root", f.user)
	}
	found, err := user.Lookup(f.user)
	if _, number := strconv.ParseUint(f.user, 10, 32); err != nil && number == nil {
		found, err = user.LookupId(f.user)
	}
	if err != nil {
		return nil, fmt.Errorf("--envoy-user: there is no account %q on this machine: make it (useradd --system %[1]s), or name another", f.user)
	}
	uid, _ := strconv.ParseUint(found.Uid, 10, 32)
	gid, _ := strconv.ParseUint(found.Gid, 10, 32)
	return &supervise.Account{Name: found.Username, UID: uint32(uid), GID: uint32(gid)}, nil
}

// own gives a file or a socket to Envoy's account.
func (f *tuningFlags) own(path string) error {
	who, err := f.account()
	if who == nil || err != nil {
		return err
	}
	return os.Chown(path, int(who.UID), int(who.GID))
}

// argumentFlags are passed to Envoy on its command line, or in its environment.
type argumentFlags struct {
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

func (f *argumentFlags) declare(flags *pflag.FlagSet) {
	flags.IntVar(&f.concurrency, "concurrency", 2, "number of Envoy's worker threads, 0: one a CPU")
	flags.StringVar(&f.logLevel, "envoy-log-level", "warning", "Envoy's log level: trace, debug, info, warning, error, critical or off")
	// Envoy's "misc" logger warns of deprecated fields at every update, and nobody on the machine can
	// change those.
	flags.StringVar(&f.componentLogLevels, "envoy-component-log-level", "misc:error", "log levels of Envoy's components: upstream:debug,config:trace")
	flags.StringVar(&f.logFormat, "envoy-log-format", "", "format of Envoy's log, as spdlog has it (default: Envoy's own)")
	flags.DurationVar(&f.listenerDrain, "listener-drain-time", 45*time.Second,
		"how long connections may go on over a listener that a change of the mesh has replaced")
	flags.DurationVar(&f.flushEvery, "file-flush-interval", 10*time.Second, "how often Envoy writes its access logs out")
	flags.Uint32Var(&f.flushAt, "file-flush-min-size", 64, "how many KiB of an access log Envoy writes out before the time has come")
	flags.StringToStringVar(&f.statsTags, "stats-tags", nil, "tags of all of Envoy's statistics: rack=7,site=eu")
	flags.StringToStringVar(&f.variables, "envoy-env", nil, "variables of Envoy's environment, beside those of this agent; access logs have them as %ENVIRONMENT(NAME)%")
}

func (f *argumentFlags) args() []string {
	args := []string{
		"--log-level", f.logLevel,
		"--drain-time-s", strconv.Itoa(int(f.listenerDrain.Seconds())),
		"--file-flush-interval-msec", strconv.FormatInt(f.flushEvery.Milliseconds(), 10),
		"--file-flush-min-size-kb", strconv.FormatUint(uint64(f.flushAt), 10),
	}
	if f.concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(f.concurrency))
	}
	if f.componentLogLevels != "" {
		args = append(args, "--component-log-level", f.componentLogLevels)
	}
	if f.logFormat != "" {
		args = append(args, "--log-format", f.logFormat)
	}
	for _, name := range slices.Sorted(maps.Keys(f.statsTags)) {
		args = append(args, "--stats-tag", name+":"+f.statsTags[name])
	}
	return args
}

// environment returns Envoy's additional environment variables.
func (f *argumentFlags) environment() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.variables)) {
		all = append(all, name+"="+f.variables[name])
	}
	return all
}
