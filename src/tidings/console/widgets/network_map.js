// The network map: an SVG that Vue keeps up to date. Where brokers can be chosen each is a button, as is each link, that
// keyboard and screen reader reach. Parts that have not changed are not made again (v-memo): a hundred brokers are many.
export default {
  template: `
    <div :class="['tidings-map', nodes.length > 40 ? 'many' : nodes.length < 4 ? 'few' : '', pick ? 'pick' : '']">
      <svg :viewBox="view" role="group" aria-label="Map of the broker network" preserveAspectRatio="xMidYMid meet">
        <g v-for="link in drawn" :key="link.key" v-memo="[link.title, link.looks, link.x1, link.y1, link.x2, link.y2]"
           :class="link.looks" :tabindex="pick ? 0 : null" :role="pick ? 'button' : 'img'" :aria-label="link.title"
           @click="$emit('link', link.key)" @keydown.enter="$emit('link', link.key)" @keydown.space.prevent="$emit('link', link.key)">
          <title>{{ link.title }}</title>
          <line v-if="pick" class="reach" :x1="link.x1" :y1="link.y1" :x2="link.x2" :y2="link.y2" />
          <line class="line" :x1="link.x1" :y1="link.y1" :x2="link.x2" :y2="link.y2" />
          <path v-if="link.lit" class="arrow" d="M -7 -7 L 9 0 L -7 7 z" :transform="link.arrow" />
        </g>
        <g v-for="node in placed" :key="node.id" v-memo="[node.title, node.note, node.looks, node.x, node.y, radius, labels]"
           :transform="'translate(' + node.x + ' ' + node.y + ')'" :class="node.looks" :data-broker="node.id"
           :tabindex="pick ? 0 : null" :role="pick ? 'button' : 'img'" :aria-label="node.title" :aria-pressed="pick ? node.id === selected : null"
           @click="$emit('node', node.id)" @keydown.enter="$emit('node', node.id)" @keydown.space.prevent="$emit('node', node.id)">
          <title>{{ node.title }}</title>
          <circle class="halo" :r="radius + 5" />
          <circle class="body" :r="radius" />
          <text v-if="radius > 9" class="number" dy="0.35em" text-anchor="middle">{{ node.number }}</text>
          <text v-if="labels" class="name" :y="radius + 16" text-anchor="middle">{{ node.name }}</text>
          <text v-if="node.note" class="note" :y="-radius - 8" text-anchor="middle">{{ node.note }}</text>
        </g>
      </svg>
    </div>`,
  props: { nodes: Array, links: Array, selected: Number, chosen: String, pick: Boolean },
  data() {
    return { width: 800, height: 480 };
  },
  mounted() {
    this.observer = new ResizeObserver(([entry]) => {
      this.width = Math.max(280, entry.contentRect.width);
      this.height = Math.max(240, entry.contentRect.height);
    });
    this.observer.observe(this.$el);
  },
  unmounted() {
    this.observer.disconnect();
  },
  computed: {
    view() {
      return `0 0 ${this.width} ${this.height}`;
    },
    radius() {
      const count = this.nodes.length;
      return count > 60 ? 7 : count > 25 ? 10 : this.width < 500 ? 13 : count > 8 ? 17 : count > 3 ? 21 : 27;
    },
    labels() {
      return this.nodes.length <= 40;
    },
    placed() {
      const margin = 46;
      return this.nodes.map((node) => ({
        ...node,
        x: margin + node.x * (this.width - 2 * margin),
        y: margin + node.y * (this.height - 2 * margin),
        looks: `node use-${node.level} ${node.state}${node.lit ? ' lit' : ''}${node.id === this.selected ? ' selected' : ''}`,
      }));
    },
    drawn() {
      const places = Object.fromEntries(this.placed.map((node) => [node.id, node]));
      return this.links
        .filter((link) => link.a in places && link.b in places)
        .map((link) => {
          const from = places[link.a], to = places[link.b], dx = to.x - from.x, dy = to.y - from.y;
          const turn = (Math.atan2(dy, dx) * 180) / Math.PI;
          return {
            ...link, x1: from.x, y1: from.y, x2: to.x, y2: to.y,
            looks: `link ${link.load} ${link.state}${link.lit ? ' lit' : ''}${link.key === this.chosen ? ' selected' : ''}`,
            arrow: `translate(${from.x + dx * 0.55} ${from.y + dy * 0.55}) rotate(${turn})`,
          };
        });
    },
  },
};
