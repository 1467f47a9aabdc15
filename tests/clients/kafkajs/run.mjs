// node run.mjs ADDRESS FILE SCENARIO: one scenario against a broker; exit code 0 if all it claims was so.
import { Judge } from "./judge.mjs";

const [address, file, scenario] = process.argv.slice(2);
const scenarios = await import(`./${file}.mjs`);
const judge = await new Judge(address).open();
await scenarios[scenario](judge, scenario);
await judge.close();
