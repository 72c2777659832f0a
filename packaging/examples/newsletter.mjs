#!/usr/bin/env node
// Sends a letter to each of a list of readers, once, a few at once. It goes to the first one, who looks at it; when they
// approve, to all others. A reader whose address is refused is noted, and the others get theirs.
//
// Shows: a workflow in Node without any package; steps side by side with keys; --try for a failure that is no end.
//
//   bide run newsletter --input '{"readers": ["ada@example.org", "bob@example.org"], "text": "Hello", "send": "mail -s News \"$1\""}'
//
// Input: readers  addresses; the first one reads it before the others
//        text     what is sent
//        send     a shell command: gets the address as $1 and the text on stdin. Its exit code 65 is a bad address
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

// Resolves to {code, out}. A verb returns 0 or does not return, unless it says --try.
function bide(words, input = null) {
  return new Promise((resolve, reject) => {
    const child = spawn("bide", words, { stdio: [input === null ? "ignore" : "pipe", "pipe", "inherit"] });
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
    child.on("error", reject);
    child.on("close", (code, signal) => (signal ? reject(new Error(`bide ${words[0]}: ${signal}`)) : resolve({ code, out })));
    if (input !== null) child.stdin.end(input);
  });
}

// A letter cannot be taken back and must not come twice: without an outcome a person is asked.
async function sendTo(reader, letter) {
  const words = ["step", "send", "--key", reader, "--retries", "3", "--no-retry-on", "65", "--stdin", "--try"];
  const { code } = await bide([...words, "--", "sh", "-c", letter.send, "send", reader], letter.text);
  return code === 0;
}

// Calls work(item) for each, at most `atOnce` side by side. The keys, and not this order, say which is which.
async function each(items, atOnce, work) {
  const left = [...items];
  const lane = async () => {
    while (left.length > 0) await work(left.shift());
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

const letter = JSON.parse(readFileSync(process.env.BIDE_INPUT, "utf8"));
const [first, ...others] = [...new Set(letter.readers)];
const refused = [];
if (!(await sendTo(first, letter))) refused.push(first);
await bide(["wait", "approval", `It went to ${first}. Send it to ${others.length} others?`, "--name", "others"]);
await each(others, 4, async (reader) => {
  if (!(await sendTo(reader, letter))) refused.push(reader);
});
await bide(["result", JSON.stringify({ sent: others.length + 1 - refused.length, refused: refused.sort() })]);
