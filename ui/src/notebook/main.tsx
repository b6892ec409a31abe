import { createRoot } from "react-dom/client";
import { parseExactly } from "../api";
import "../style/page.css";
import { Notebook, type Given } from "./notebook";

const given = parseExactly(document.getElementById("whence-data")!.textContent!) as Given;
createRoot(document.getElementById("whence-page")!).render(<Notebook given={given} />);
