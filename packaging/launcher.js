#!/usr/bin/env node
// Starts the program that the package of this platform has, with the caller's terminal; passes signals on to it, and
// ends as it has ended.
"use strict";

const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { constants } = require("node:os");

const PLATFORMS = ["linux-arm64", "linux-x64"];
// Those of `courtesy run`, and by which `courtesy serve` reads its settings anew.
const PASSED_ON = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

/** Ends with a message; 69 is "something needed is missing", as of the program. */
function fail(message) {
  process.stderr.write(`courtesy-proxy: ${message}\n`);
  process.exit(69);
}

function program() {
  const platform = `${process.platform}-${process.arch}`;
  if (process.platform !== "linux") {
    fail(`courtesy runs on Linux, and this is ${process.platform}: use a virtual machine or a container`);
  }
  if (!PLATFORMS.includes(platform)) {
    fail(`there is no package for ${platform}, only for ${PLATFORMS.join(" and ")}: build it from source`);
  }
  const name = `courtesy-proxy-${platform}`;
  try {
    return require.resolve(`${name}/bin/courtesy`);
  } catch {
    return fail(
      `the package ${name} is missing. npm installs it as an optional dependency: not with --omit=optional, not where ` +
        "node_modules were copied from another platform, and not where the C library is not glibc (Alpine)",
    );
  }
}

/** Whether the terminal sends its signals to this process: then the program has had them, too. */
function inForeground() {
  const stat = readFileSync("/proc/self/stat", "latin1");
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(")") + 1).trim().split(" ");
  return group === foreground;
}

const path = program();
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of PASSED_ON) {
  process.on(signal, () => {
    const fromTerminal = ["SIGINT", "SIGQUIT"].includes(signal) && inForeground();
    if (!fromTerminal) child.kill(signal);
  });
}
child.on("error", (error) => fail(`cannot run ${path}: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // As a shell tells it.
  process.exit(128 + constants.signals[signal]);
});
